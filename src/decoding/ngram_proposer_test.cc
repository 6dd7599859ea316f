// Goal: prompt lookup finds what the definition finds, and drafts are made where, and only where, they pay.
// Method: a naive search that compares every place token by token, on random token lists of few kinds; and
// sequences played against a known acceptance.
#include "decoding/ngram_proposer.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "decoding/draft_policy.h"

namespace pagoda {
namespace {

// Straight from the definition.
std::optional<NgramMatch> naive(const std::vector<TokenId>& tokens, std::size_t min, std::size_t max,
                                std::size_t count) {
  std::optional<NgramMatch> best;
  for (std::size_t end = 1; end < tokens.size(); ++end) {  // the earlier run stands before it
    std::size_t agreed = 0;
    for (std::size_t length = 1; length <= std::max<std::size_t>(max, kMaxAgreed) && length <= end;
         ++length) {
      const auto from = [&](std::size_t e) {
        return tokens.begin() + static_cast<std::ptrdiff_t>(e - length);
      };
      if (!std::equal(from(end), from(end) + static_cast<std::ptrdiff_t>(length), from(tokens.size()))) break;
      agreed = length;
    }
    if (agreed < min || (best && best->num_agreed > static_cast<std::int32_t>(agreed))) continue;
    std::vector<TokenId> all = tokens;
    for (std::size_t i = 0; i < count; ++i) all.push_back(all[end + i]);
    best = NgramMatch{.draft = {all.begin() + static_cast<std::ptrdiff_t>(tokens.size()), all.end()},
                      .num_agreed = static_cast<std::int32_t>(agreed)};
  }
  return best;
}

TEST(FindNgram, AgreesWithTheDefinition) {
  std::int64_t found = 0, missed = 0, long_ones = 0;
  for (std::uint64_t seed = 0; seed < 4000; ++seed) {
    std::uint64_t position = 0;
    const auto below = [&](std::uint64_t limit) { return random_bits(seed, 1, ++position) % limit; };
    std::vector<TokenId> tokens(below(120));
    const std::uint64_t kinds = 1 + below(12), period = below(3) == 0 ? 1 + below(50) : 0;
    for (std::size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = period > 0 && i >= period ? tokens[i - period] : static_cast<TokenId>(below(kinds));
    const auto min = static_cast<std::int32_t>(1 + below(4)), max = min + static_cast<std::int32_t>(below(4));
    const auto count = static_cast<std::int32_t>(1 + below(8));
    const auto expected = naive(tokens, static_cast<std::size_t>(min), static_cast<std::size_t>(max),
                                static_cast<std::size_t>(count));
    const auto actual = find_ngram(tokens, min, max, count);
    ASSERT_EQ(actual.has_value(), expected.has_value()) << "seed " << seed;
    (actual ? found : missed) += 1;
    if (!actual) continue;
    ASSERT_EQ(actual->draft, expected->draft) << "seed " << seed;
    ASSERT_EQ(actual->num_agreed, expected->num_agreed) << "seed " << seed;
    long_ones += actual->num_agreed > 8 ? 1 : 0;
  }
  EXPECT_GT(found, 1000);
  EXPECT_GT(missed, 500);
  EXPECT_GT(long_ones, 100);
}

TEST(FindNgram, HasNothingToSayOfShortLists) {
  EXPECT_FALSE(find_ngram({}, 1, 4, 5));
  const std::vector<TokenId> one{7};
  EXPECT_FALSE(find_ngram(one, 1, 4, 5));
  const std::vector<TokenId> two{7, 7};
  EXPECT_EQ(find_ngram(two, 1, 4, 3)->draft, (std::vector<TokenId>{7, 7, 7}));
  EXPECT_FALSE(find_ngram(two, 2, 4, 3));
}

TEST(SpeculativeConfig, SaysWhichFieldIsWrong) {
  const SpeculativeConfig good{.num_speculative_tokens = 5, .prompt_lookup_max = 4, .prompt_lookup_min = 2};
  EXPECT_TRUE(validate(good).ok());
  const auto param_of = [&](auto change) {
    SpeculativeConfig config = good;
    change(config);
    return std::string(validate(config).param());
  };
  EXPECT_EQ(param_of([](auto& c) { c.num_speculative_tokens = 0; }), "num_speculative_tokens");
  EXPECT_EQ(param_of([](auto& c) { c.num_speculative_tokens = 65; }), "num_speculative_tokens");
  EXPECT_EQ(param_of([](auto& c) { c.prompt_lookup_max = 0; }), "prompt_lookup_max");
  EXPECT_EQ(param_of([](auto& c) { c.prompt_lookup_min = 5; }), "prompt_lookup_min");
  EXPECT_EQ(param_of([](auto& c) { c.prompt_lookup_min = 0; }), "prompt_lookup_min");
  EXPECT_EQ(param_of([](auto& c) { c.disable_by_batch_size = -1; }), "disable_by_batch_size");
}

TEST(WorthwhileGuesses, FallWithTheChanceAndTheBatch) {
  EXPECT_EQ(worthwhile_guesses(1, 5, 1), 5);
  EXPECT_EQ(worthwhile_guesses(0.01, 5, 1), 0);
  EXPECT_EQ(worthwhile_guesses(1, 0, 1), 0);
  for (const double chance : {0.1, 0.3, 0.5, 0.7, 0.9, 0.99}) {
    EXPECT_LE(worthwhile_guesses(chance - 0.1, 9, 1), worthwhile_guesses(chance, 9, 1));
    for (std::int32_t decodes = 1; decodes < 256; ++decodes)
      EXPECT_GE(worthwhile_guesses(chance, 9, decodes), worthwhile_guesses(chance, 9, decodes + 1));
  }
  EXPECT_EQ(worthwhile_guesses(1, 9, 256), 0) << "beside many, a sure draft takes as long as it saves";
}

// Steps of a sequence whose drafts are right with `chance`: time (in rows) with drafts, over time without.
double relative_speed(double chance, std::int32_t decodes, std::size_t of) {
  DraftHistory history;
  double tokens = 0, rows = 0;
  for (std::uint64_t step = 0; step < 4000; ++step) {
    const std::int32_t count = worthwhile_guesses(expect_accepted(history, of), 5, decodes);
    std::int32_t accepted = 0;
    while (accepted < count && random_uniform(3, step, static_cast<std::uint64_t>(accepted)) < chance)
      ++accepted;
    history.latest = static_cast<std::uint8_t>(of);
    if (count > 0) note_verified(history, count, accepted);
    tokens += 1 + accepted;
    rows += (kStepRows + decodes + count) / (kStepRows + decodes);
  }
  return tokens / rows;
}

TEST(DraftPolicy, LosesLittleWhereGuessesAreWrongAndGainsWhereTheyAreRight) {
  for (std::size_t of = 0; of < DraftHistory::kNumClasses; ++of) {
    for (const std::int32_t decodes : {1, 2, 4, 8, 16, 64})
      for (const double chance : {0.0, 0.05, 0.1, 0.2, 0.4, 0.6})
        EXPECT_GT(relative_speed(chance, decodes, of), 0.97)
            << chance << " beside " << decodes << ", class " << of;
    EXPECT_GT(relative_speed(0.95, 1, of), 2.5);
    EXPECT_GT(relative_speed(0.8, 1, of), 1.8);
  }
  EXPECT_GT(relative_speed(0.95, 8, 2), 1.3);
}

TEST(NgramProposer, ObeysItsLimits) {
  SequenceGroup group;
  const auto drafts = [&](const SpeculativeConfig& config, std::int32_t limit, std::int32_t decodes) {
    NgramProposer proposer(config);
    Sequence sequence;
    for (TokenId i = 0; i < 60; ++i) sequence.tokens.push_back(i % 20);
    proposer.propose(group, sequence, limit, decodes);
    return sequence.draft;
  };
  const SpeculativeConfig config{.num_speculative_tokens = 5, .prompt_lookup_max = 4, .prompt_lookup_min = 2};
  EXPECT_EQ(drafts(config, 100, 1), (std::vector<TokenId>{0, 1, 2, 3, 4}));
  EXPECT_EQ(drafts(config, 2, 1), (std::vector<TokenId>{0, 1}));
  SpeculativeConfig few = config;
  few.disable_by_batch_size = 3;
  EXPECT_FALSE(drafts(few, 100, 2).empty());
  EXPECT_TRUE(drafts(few, 100, 3).empty());
  EXPECT_TRUE(drafts(config, 100, 200).empty());
}

}  // namespace
}  // namespace pagoda
