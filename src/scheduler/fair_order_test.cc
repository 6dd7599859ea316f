// The order of turns by itself: counters, weights, lift, seats, and what it forgets.
#include "scheduler/fair_order.h"

#include <gtest/gtest.h>

#include <map>

#include "base/random.h"
#include "base/strings.h"

namespace pagoda {
namespace {

OrderRecord record(std::string_view tenant, std::int32_t weight = 1, std::int32_t priority = 0) {
  return {.tenant = tenant,
          .weight = weight,
          .priority = priority,
          .num_prompt_tokens = 10,
          .max_output_tokens = 10};
}

// A request from its arrival to its end, with an answer of `output` tokens.
void serve(FairOrder& order, const OrderRecord& asked, OrderAccount& account, std::int64_t output) {
  order.admitted(asked, account, 0);
  order.served(account, asked.num_prompt_tokens, 0);
  for (std::int64_t i = 0; i < output; ++i) order.served(account, 0, 1);
  order.left(account);
}

TEST(FairOrder, ACounterIsServiceByWeightHoweverItWasForetold) {
  FairOrder order;
  for (const std::int64_t output : {1, 10, 40}) {
    OrderAccount light, heavy;
    order.arrived(record("one"), light);
    order.arrived(record("four", 4), heavy);
    const std::int64_t before = order.counter("one"), before_four = order.counter("four");
    serve(order, record("one"), light, output);
    serve(order, record("four", 4), heavy, output);
    EXPECT_EQ(order.counter("one") - before, fair_charge(10, output, 1));
    EXPECT_NEAR(static_cast<double>(order.counter("four") - before_four),
                static_cast<double>(fair_charge(10, output, 1)) / 4, 1 + static_cast<double>(output));
  }
}

TEST(FairOrder, TheTurnCountsWhatIsYetToCome) {
  FairOrder order;
  OrderAccount first, second, other;
  order.arrived(record("a"), first);
  order.arrived(record("a"), second);
  order.arrived(record("b"), other);
  EXPECT_EQ(order.turn(second), order.turn(other));
  order.admitted(record("a"), first, 0);
  EXPECT_GT(order.turn(second), order.turn(other)) << "a has a place, if nothing has been computed yet";
  const std::int64_t turn = order.turn(second);
  order.served(first, 10, 0);
  EXPECT_EQ(order.turn(second), turn) << "it was charged ahead";
  order.preempted(first);
  EXPECT_EQ(order.turn(second), turn);
  order.left(first);
  EXPECT_LT(order.turn(second), turn) << "and is given back";
  EXPECT_EQ(order.turn(second), fair_charge(10, 0, 1));
}

TEST(FairOrder, WhoComesBackStartsAtTheLeastOfThoseWhoAreHere) {
  FairOrder order;
  OrderAccount busy, waiting;
  order.arrived(record("busy"), busy);
  order.arrived(record("busy"), waiting);
  serve(order, record("busy"), busy, 1000);
  OrderAccount late;
  order.arrived(record("late"), late);
  EXPECT_EQ(order.turn(late), order.turn(waiting)) << "having been away is no credit";
  // Nor is leaving for a moment a way out of a debt.
  serve(order, record("late"), late, 5000);
  OrderAccount again;
  order.arrived(record("late"), again);
  EXPECT_GT(order.turn(again), order.turn(waiting));
  // With nobody here, the last one's counter counts.
  order.left(waiting);
  order.left(again);
  OrderAccount third;
  order.arrived(record("third"), third);
  EXPECT_GE(order.turn(third), fair_charge(10, 1000, 1));
}

// As of clients that each come with an address of their own.
TEST(FairOrder, TenantsWhoAreAlwaysNewKeepNobodyOut) {
  FairOrder order;
  OrderAccount before, waiting;
  order.arrived(record("old"), before);
  OrderAccount other;
  order.arrived(record("new"), other);
  serve(order, record("old"), before, 500);
  order.arrived(record("old"), waiting);
  int served = 0;
  for (; served < 2000 && order.turn(waiting) > order.turn(other); ++served) {
    const std::string name = concat("new", served);  // comes while the last one is served: one always waits
    const std::string last = served == 0 ? "new" : concat("new", served - 1);
    OrderAccount next;
    order.arrived(record(name), next);
    serve(order, record(last), other, 10);
    other = next;
  }
  // Each has 10 tokens of a prompt and 10 of an answer, a third of which old would have had.
  EXPECT_LT(served, 200);
  EXPECT_GT(served, 20) << "it has had its share of before";
}

TEST(FairOrder, TheLatestOfWhoHasMostGivesWayToANewcomer) {
  FairOrder order;
  OrderAccount running[3], light, second;
  std::int64_t rank = 0;
  for (OrderAccount& account : running) {
    order.arrived(record("heavy"), account);
    const std::int64_t next = order.admitted(record("heavy"), account, 0);
    EXPECT_GT(next, rank) << "who comes later gives way first";
    rank = next;
  }
  order.arrived(record("light"), light);
  EXPECT_TRUE(order.is_newcomer(light));
  EXPECT_TRUE(order.may_displace(light, running[2]));
  EXPECT_FALSE(order.may_displace(running[2], light));
  const std::int64_t seat = order.admitted(record("light"), light, 0);
  EXPECT_LT(seat, rank);
  order.arrived(record("light"), second);
  EXPECT_FALSE(order.is_newcomer(second));
  EXPECT_FALSE(order.may_displace(second, running[2])) << "one place at once, the rest by turns";
  // A tenant with one place keeps it.
  OrderAccount third;
  order.arrived(record("third"), third);
  EXPECT_FALSE(order.may_displace(third, light));
}

TEST(FairOrder, WithinATenantPriorityCountsAndAges) {
  FairOrder order;
  OrderAccount low, high, after;
  const std::int64_t first = order.arrived(record("a", 1, 1), low);
  EXPECT_LT(order.arrived(record("a", 1, 0), high), first);
  for (int i = 0; i < 2000; ++i) {
    OrderAccount other;
    order.arrived(record("b"), other);
    order.left(other);
  }
  EXPECT_GT(order.arrived(record("a", 1, 0), after), first)
      << "a thousand arrivals later it is overtaken no more";
}

TEST(FairOrder, WhatItKnowsIsBounded) {
  FairOrder order;
  OrderAccount busy;
  order.arrived(record("busy"), busy);
  for (int i = 0; i < 10'000; ++i) {
    OrderAccount account;
    const std::string name = concat("10.0.", i / 256, ".", i % 256);
    order.arrived(record(name), account);
    serve(order, record(name), account, 1);
    order.admitted(record("busy"), busy, 0);
    order.served(busy, 10, 10);
    order.preempted(busy);
  }
  EXPECT_LT(order.num_known(), 300u);
  EXPECT_EQ(order.tenants().size(), 1u);
}

// Backlogged tenants with weights: a place gets free, the least turn takes it.
TEST(FairOrder, SharesFollowWeights) {
  FairOrder order;
  const std::map<std::string, std::int32_t> weights = {{"one", 1}, {"three", 3}, {"six", 6}};
  struct Running {
    std::string tenant;
    OrderAccount account;
    std::int64_t left;
  };
  std::map<std::string, OrderAccount> waiting;
  for (const auto& [name, weight] : weights) order.arrived(record(name, weight), waiting[name]);
  std::vector<Running> running;
  std::map<std::string, std::int64_t> served;
  std::uint64_t draws = 0;
  for (int step = 0; step < 20'000; ++step) {
    while (running.size() < 20) {
      const auto next =
          std::ranges::min_element(waiting, {}, [&](const auto& entry) { return order.turn(entry.second); });
      Running& chosen = running.emplace_back();
      chosen.tenant = next->first;
      chosen.account = next->second;
      chosen.left = 5 + static_cast<std::int64_t>(random_uniform(1, 2, ++draws) * 40);
      order.admitted(record(chosen.tenant, weights.at(chosen.tenant)), chosen.account, 0);
      next->second = {};
      order.arrived(record(chosen.tenant, weights.at(chosen.tenant)), next->second);
    }
    for (Running& one : running) {
      order.served(one.account, 0, 1);
      ++served[one.tenant];
      if (--one.left == 0) order.left(one.account);
    }
    std::erase_if(running, [](const Running& one) { return one.left == 0; });
    if (step % 1000 != 999) continue;
    const auto share = [&](const char* name) { return static_cast<double>(served[name]) / weights.at(name); };
    EXPECT_NEAR(share("three") / share("one"), 1, 0.05) << step;
    EXPECT_NEAR(share("six") / share("one"), 1, 0.05) << step;
    served.clear();
  }
}

}  // namespace
}  // namespace pagoda
