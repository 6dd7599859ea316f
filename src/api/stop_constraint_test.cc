// Goal: a sequence ends with the token that completes a stop string, wherever the tokens divide it.
// Method: cases by hand on a vocabulary of bytes and a word.
#include "text/stop_constraint.h"

#include <gtest/gtest.h>

#include "api/fake_tokenizer.h"

namespace pagoda {
namespace {

TEST(StopConstraint, EndsWithTheTokenThatCompletesAStop) {
  const FakeTokenizer tokenizer;
  const auto factory = make_stop_constraint(tokenizer, {"", "rdx", ".."});
  const auto constraint = factory->make();
  std::vector<MaskWord> mask(mask_words(260));
  ASSERT_TRUE(constraint->fill_mask(mask));
  for (TokenId token = 0; token < 260; ++token) EXPECT_TRUE(allows(mask, token));
  const auto say = [&](TokenId token) {
    EXPECT_TRUE(constraint->advance(token));
    return constraint->is_terminated();
  };
  EXPECT_FALSE(say('.'));
  EXPECT_FALSE(say(FakeTokenizer::kWord));
  const auto fork = constraint->fork();
  EXPECT_FALSE(say(FakeTokenizer::kSpecial));  // has no text
  EXPECT_TRUE(say('x'));
  constraint->rollback(1);
  EXPECT_FALSE(constraint->is_terminated());
  EXPECT_FALSE(say('.'));
  EXPECT_TRUE(say('.'));
  constraint->rollback(4);
  EXPECT_TRUE(say('.'));  // behind the first
  EXPECT_TRUE(fork->advance('x'));
  EXPECT_TRUE(fork->is_terminated());
  EXPECT_EQ(make_stop_constraint(tokenizer, {""}), nullptr);
}

TEST(StopConstraint, BothEndWhereOneEnds) {
  const FakeTokenizer tokenizer;
  const auto a = make_stop_constraint(tokenizer, {"a"}), b = make_stop_constraint(tokenizer, {"b"});
  EXPECT_EQ(both_constraints(a, nullptr), a);
  EXPECT_EQ(both_constraints(nullptr, b), b);
  for (const TokenId last : {'a', 'b'}) {
    const auto constraint = both_constraints(a, b)->make();
    ASSERT_TRUE(constraint->advance('c'));
    EXPECT_FALSE(constraint->is_terminated());
    ASSERT_TRUE(constraint->advance(last));
    EXPECT_TRUE(constraint->is_terminated());
    constraint->rollback(1);
    EXPECT_FALSE(constraint->fork()->is_terminated());
  }
}

}  // namespace
}  // namespace pagoda
