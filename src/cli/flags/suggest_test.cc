#include "cli/flags/suggest.h"

#include <gtest/gtest.h>

#include <vector>

namespace pagoda {
namespace {

const std::vector<std::string> kFlags = {"--port", "--host", "--max-num-seqs", "--max-num-batched-tokens"};

TEST(Suggestion, NamesTheNearest) {
  EXPECT_EQ(suggestion("--prot", kFlags), "; did you mean --port?");
  EXPECT_EQ(suggestion("--max-seqs", kFlags), "; did you mean --max-num-seqs?");
  EXPECT_EQ(suggestion("--max-batched-tokens", kFlags), "; did you mean --max-num-batched-tokens?");
}

TEST(Suggestion, StaysSilentWhenNothingIsNear) {
  EXPECT_EQ(suggestion("--completely-else", kFlags), "");
  EXPECT_EQ(suggestion("", kFlags), "");
  EXPECT_EQ(suggestion(std::string(10'000, 'x'), kFlags), "");
}

}  // namespace
}  // namespace pagoda
