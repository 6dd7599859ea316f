#include "kv_cache/pinned_prefixes.h"

#include <gtest/gtest.h>

#include <random>

namespace pagoda {
namespace {

using Use = PinnedPrefixes::Use;

TEST(PinnedPrefixes, TheLongestIsUsedLessTheLastToken) {
  PinnedPrefixes pinned;
  pinned.add(SequenceId{1}, std::vector<TokenId>{1, 2});
  pinned.add(SequenceId{2}, std::vector<TokenId>{1, 2, 3});
  const std::vector<TokenId> prompt = {1, 2, 3};
  const auto found = pinned.longest(prompt, "", 0, Use::any_part);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->num_tokens, 2);
  EXPECT_EQ(found->holder, SequenceId{1}) << "no shorter than the other one";
  EXPECT_FALSE(pinned.longest(prompt, "", 2, Use::any_part)) << "no more than is there already";
  EXPECT_EQ(pinned.longest(std::vector<TokenId>{1, 2, 3, 4}, "", 0, Use::whole)->holder, SequenceId{2});
  pinned.remove(SequenceId{2});
  EXPECT_EQ(pinned.longest(std::vector<TokenId>{1, 2, 3, 4}, "", 0, Use::whole)->holder, SequenceId{1});
}

TEST(PinnedPrefixes, AreOfOneVariant) {
  PinnedPrefixes pinned;
  pinned.add(SequenceId{1}, std::vector<TokenId>{1, 2});
  pinned.add(SequenceId{2}, std::vector<TokenId>{1, 2, 3}, "adapter");
  const std::vector<TokenId> prompt = {1, 2, 3, 4};
  EXPECT_EQ(pinned.longest(prompt, "", 0, Use::any_part)->holder, SequenceId{1});
  EXPECT_EQ(pinned.longest(prompt, "adapter", 0, Use::any_part)->holder, SequenceId{2});
  EXPECT_FALSE(pinned.longest(prompt, "other", 0, Use::any_part));
}

// Goal: the answer is the best over all prefixes. Method: each is compared token by token.
TEST(PinnedPrefixesProperty, AgreesWithAScan) {
  std::mt19937_64 rng(1);
  const auto draw = [&](std::size_t most) {
    std::vector<TokenId> tokens(1 + rng() % most);
    for (TokenId& token : tokens) token = static_cast<TokenId>(rng() % 2);
    return tokens;
  };
  for (int round = 0; round < 300; ++round) {
    PinnedPrefixes pinned;
    std::vector<std::vector<TokenId>> all;
    for (std::uint64_t i = 0; i < 1 + rng() % 6; ++i) {
      all.push_back(draw(6));
      pinned.add(SequenceId{i}, all.back());
    }
    const std::vector<TokenId> prompt = draw(8);
    const auto least = static_cast<std::int32_t>(rng() % 3);
    for (const Use use : {Use::any_part, Use::whole}) {
      std::int32_t best = least;
      for (const auto& prefix : all) {
        std::size_t same = 0;
        while (same < prefix.size() && same < prompt.size() && prefix[same] == prompt[same]) ++same;
        if (same < prefix.size() || (use == Use::whole && same == prompt.size())) continue;
        best = std::max(best, static_cast<std::int32_t>(std::min(same, prompt.size() - 1)));
      }
      const auto found = pinned.longest(prompt, "", least, use);
      ASSERT_EQ(found ? found->num_tokens : least, best);
    }
  }
}

}  // namespace
}  // namespace pagoda
