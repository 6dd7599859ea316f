#include "server/keys/rate_limit.h"

#include <gtest/gtest.h>

#include <map>

namespace pagoda {
namespace {

constexpr TimeNs kSecond = 1'000'000'000;

std::map<std::string, std::string> headers(const RateLimit& limit, TimeNs now) {
  std::map<std::string, std::string> out;
  for (auto& [name, value] : limit.headers(now)) out[name] = value;
  return out;
}

TEST(RateLimit, RequestsComeBackEvenly) {
  RateLimit limit;
  limit.set(6, 0, 0);
  for (int i = 0; i < 6; ++i) EXPECT_FALSE(limit.take_request(0)) << i;
  const auto refused = limit.take_request(0);
  ASSERT_TRUE(refused);
  EXPECT_DOUBLE_EQ(refused->wait_s, 10);
  EXPECT_NE(refused->message.find("10s"), std::string::npos);
  EXPECT_TRUE(limit.take_request(9 * kSecond));
  EXPECT_FALSE(limit.take_request(10 * kSecond));
  EXPECT_TRUE(limit.take_request(10 * kSecond));
  EXPECT_EQ(headers(limit, 10 * kSecond)["x-ratelimit-reset-requests"], "1m0s");
  EXPECT_EQ(headers(limit, 70 * kSecond)["x-ratelimit-remaining-requests"], "6");  // never more
}

TEST(RateLimit, TokensAreTakenAsPredictedAndGivenBack) {
  RateLimit limit;
  limit.set(0, 600, 0);
  std::int64_t taken = 0;
  EXPECT_FALSE(limit.take_tokens(500, 100, 0, taken));
  EXPECT_EQ(taken, 500);
  EXPECT_EQ(headers(limit, 0)["x-ratelimit-remaining-tokens"], "100");
  const auto refused = limit.take_tokens(300, 10, 0, taken);
  ASSERT_TRUE(refused);
  EXPECT_EQ(taken, 0);
  EXPECT_DOUBLE_EQ(refused->wait_s, 20);
  limit.settle(500, 120, 0);
  EXPECT_EQ(headers(limit, 0)["x-ratelimit-remaining-tokens"], "480");
  EXPECT_FALSE(limit.take_tokens(300, 10, 0, taken));
}

TEST(RateLimit, ARequestOfMoreThanAMinutesWorthWaitsForAFullBucket) {
  RateLimit limit;
  limit.set(0, 600, 0);
  std::int64_t taken = 0;
  EXPECT_FALSE(limit.take_tokens(100'000, 600, 0, taken));
  EXPECT_EQ(taken, 600);
  limit.settle(taken, 1200, 0);  // it has used two minutes' worth
  EXPECT_TRUE(limit.take_tokens(1, 1, 59 * kSecond, taken));
  EXPECT_FALSE(limit.take_tokens(1, 1, 61 * kSecond, taken));
  const auto never = limit.take_tokens(601, 601, 1000 * kSecond, taken);
  ASSERT_TRUE(never);
  EXPECT_EQ(never->wait_s, 0);
}

TEST(RateLimit, WithoutLimitsThereIsNothingToTell) {
  RateLimit limit;
  std::int64_t taken = 7;
  EXPECT_FALSE(limit.take_request(0));
  EXPECT_FALSE(limit.take_tokens(1'000'000, 1, 0, taken));
  EXPECT_EQ(taken, 0);
  EXPECT_TRUE(limit.headers(0).empty());
}

TEST(RateLimit, ANewLimitKeepsWhatHasBeenUsed) {
  RateLimit limit;
  limit.set(10, 0, 0);
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(limit.take_request(0));
  limit.set(12, 0, 0);
  EXPECT_FALSE(limit.take_request(0));
  EXPECT_FALSE(limit.take_request(0));
  EXPECT_TRUE(limit.take_request(0));
}

TEST(RateLimit, DurationsAsOpenAiWritesThem) {
  EXPECT_EQ(duration_text(0), "0s");
  EXPECT_EQ(duration_text(-1), "0s");
  EXPECT_EQ(duration_text(0.0001), "1ms");
  EXPECT_EQ(duration_text(0.25), "250ms");
  EXPECT_EQ(duration_text(8.2), "9s");
  EXPECT_EQ(duration_text(60), "1m0s");
  EXPECT_EQ(duration_text(3661), "1h1m1s");
}

}  // namespace
}  // namespace pagoda
