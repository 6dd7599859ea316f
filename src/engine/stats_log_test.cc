#include "engine/stats_log.h"

#include <gtest/gtest.h>

namespace pagoda {
namespace {

constexpr TimeNs kSecond = 1'000'000'000;

TEST(StatsLog, GivesRatesOfTheTimeBetween) {
  EngineSnapshot now;
  now.num_blocks = 100;
  now.num_free_blocks = 40;
  int taken = 0;
  const StatsLog::Take take = [&] { return ++taken, now; };
  StatsLog log;
  EXPECT_EQ(log.line(5 * kSecond, take), std::nullopt) << "there is nothing to compare with";
  EXPECT_EQ(log.line(14 * kSecond, take), std::nullopt);
  EXPECT_EQ(taken, 1);

  now.totals.prompt_tokens = 1000;
  now.totals.generation_tokens = 250;
  now.totals.prefix_cache_queries = 400;
  now.totals.prefix_cache_hits = 100;
  now.requests.resize(3);
  now.requests[0].state = GroupState::running;
  now.requests[1].state = GroupState::swapped;
  EXPECT_EQ(
      log.line(15 * kSecond, take),
      "Avg prompt throughput: 100.0 tokens/s, Avg generation throughput: 25.0 tokens/s, Running: 1 reqs, "
      "Waiting: 1 reqs, KV cache usage: 60.0%, Prefix cache hit rate: 25.0%");

  now.totals.generation_tokens = 9000;
  EXPECT_EQ(log.line(40 * kSecond, take), std::nullopt) << "it was idle";
  now.totals.generation_tokens = 9020;
  EXPECT_NE(log.line(50 * kSecond, take)->find("generation throughput: 2.0 tokens/s"), std::string::npos);
}

}  // namespace
}  // namespace pagoda
