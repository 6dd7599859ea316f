// Goal: whatever the family, what a request gets is the same to the bit in every way in which it may be
// served: alone, among others and in chunks, from the prefix cache, with drafts, after recomputation and
// after swapping, paged and virtual, on one rank and on two. Method: fixtures of tests/fixtures/families
// through the whole engine (model_test_support.h): one or two of each kind, or all of them
// (families_of_every_kind).
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "engine/model_test_support.h"
#include "model_runner/family_model.h"

namespace pagoda {
namespace {

using trials::Outcome;
using trials::Trial;

class FamilyModes : public ::testing::TestWithParam<std::string> {
 protected:
  FamilyModes()
      : folder_(testing::write_family(
            GetParam(), ::testing::TempDir() + "modes_" + GetParam() + "_" + std::to_string(::getpid()))) {}
  ~FamilyModes() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
};

void expect_same_outcome(const Outcome& got, const Outcome& alone, const char* what) {
  EXPECT_TRUE(got.refused.ok()) << what << ": " << got.refused.message();
  ASSERT_EQ(got.answers.size(), alone.answers.size()) << what;
  for (std::size_t i = 0; i < alone.answers.size(); ++i)
    EXPECT_TRUE(got.answers[i] == alone.answers[i]) << what << ": request " << i << " differs";
}

TEST_P(FamilyModes, GiveTheSameBits) {
  const Trial lone = {.model = folder_, .windows = false, .threads = 1, .num_requests = 8};
  const Outcome alone = run(lone);
  ASSERT_EQ(alone.answers.size(), 8u);
  const auto same = [&](const Trial& trial, const char* what) {
    Outcome outcome = run(trial);
    expect_same_outcome(outcome, alone, what);
    return outcome;
  };

  Trial small = lone;
  small.windows = true;
  small.block_size = 4;
  Trial chunked = small;
  chunked.chunked = chunked.all_at_once = true;
  chunked.threads = 2;
  same(chunked, "in chunks");
  Trial drafting = small;
  drafting.drafts_of = &alone;
  drafting.all_at_once = true;
  const Outcome drafted = same(drafting, "with drafts");
  EXPECT_GT(drafted.drafts, 0);
  EXPECT_GT(drafted.wrong_drafts, 0);
  Trial again = small;
  again.rounds = 2;
  const Outcome cached = same(again, "from the prefix cache");
  EXPECT_GT(cached.cached, 0);

  Trial tight = small;
  tight.all_at_once = true;
  tight.longest = alone.has_states ? 3 : 2;  // beams that come back may share nothing
  EXPECT_GT(same(tight, "recomputed").preemptions, 0);
  tight.num_swap = 1;
  EXPECT_GT(same(tight, "swapped").swaps, 0);

  Trial async = small;
  async.async = async.chunked = async.all_at_once = true;
  async.rounds = 2;
  EXPECT_EQ(same(async, "asynchronous").planned_ahead > 0, !alone.has_states);
  tight.async = true;
  EXPECT_GT(same(tight, "asynchronous, swapped").swaps, 0);

  for (Trial* each : {&chunked, &again, &tight}) each->virtual_kv = KvTensors::per_layer;
  same(chunked, "virtual, in chunks");
  EXPECT_EQ(same(again, "virtual, from the prefix cache").cached, cached.cached);
  EXPECT_GT(same(tight, "virtual, swapped").swaps, 0);
  chunked.page_bytes = 64 << 10;  // many tokens a row, and a state in few pages
  same(chunked, "virtual, in large pages");
}

TEST_P(FamilyModes, TwoRanksGiveTheBitsOfOne) {
  Trial one = {.model = folder_, .windows = false, .threads = 1, .num_requests = 8};
  Trial two = one;
  two.ranks = 2;
  two.windows = two.chunked = two.all_at_once = true;
  const Outcome alone = run(one);
  expect_same_outcome(run(two), alone, "two ranks");
  if (!alone.has_states) return;
  // Each rank's part of the states goes the ways of the whole ones.
  two.block_size = 4;
  two.chunked = two.all_at_once = false;
  two.rounds = 2;
  const Outcome cached = run(two);
  Trial again = one;
  again.rounds = 2;
  expect_same_outcome(cached, run(again), "two ranks, from the prefix cache");
  EXPECT_GT(cached.cached, 0);
  two.rounds = 1;
  two.all_at_once = true;
  two.longest = 3;
  two.num_swap = 1;
  const Outcome swapped = run(two);
  expect_same_outcome(swapped, alone, "two ranks, swapped");
  EXPECT_GT(swapped.swaps, 0);
}

INSTANTIATE_TEST_SUITE_P(Families, FamilyModes, ::testing::ValuesIn(testing::families_of_every_kind()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace pagoda
