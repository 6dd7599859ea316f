// Goal: whatever order jobs come in, and whoever their owners are, a job waits for its share of the queue or
// is late. Method: RapidCheck draws scripts of arrivals (of known owners and of ones never seen before), of
// takes by both lanes, of removals, charges and time that passes; a list beside the queue knows what waits.
#include "server/job_queue.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace pagoda {
namespace {

using Lane = JobQueue::Lane;

TEST(JobQueue, EveryTakeMovesTheTimeOnSoThatNewOwnersStandBehindOldOnes) {
  JobQueue queue;
  JobQueue::JobId id = 0;
  queue.push(++id, "kept", 10, true);
  EXPECT_EQ(queue.take(Lane::any)->id, 1u);
  queue.push(++id, "fresh", 10, true);
  queue.push(++id, "kept", 10, true);
  int before = 0;
  for (int i = 0; i < 100 && queue.num_waiting("kept") > 0; ++i, ++before) {
    queue.push(++id, "fresh" + std::to_string(i), 10, true);
    queue.push(++id, "other" + std::to_string(i), 10, true);
    ASSERT_TRUE(queue.take(Lane::any));
  }
  EXPECT_LE(before, 3);
}

TEST(JobQueue, WhatAJobReallyCostIsWaitedForByItsOwner) {
  JobQueue queue;
  queue.push(1, "slow", 10, true);
  const JobQueue::Taken taken = *queue.take(Lane::any);
  queue.charge("slow", taken.tag, 25);
  queue.push(2, "slow", 10, true);
  for (JobQueue::JobId id = 3; id < 10; ++id) queue.push(id, "quick", 10, true);
  std::vector<JobQueue::JobId> order;
  while (const auto next = queue.take(Lane::any)) order.push_back(next->id);
  EXPECT_EQ(order, (std::vector<JobQueue::JobId>{3, 4, 5, 2, 6, 7, 8, 9}));
  EXPECT_EQ(queue.num_known(), 0u) << "nobody owes anything any more";
}

TEST(JobQueue, WhatWasTakenBackCostsItsOwnerNothing) {
  JobQueue queue;
  for (JobQueue::JobId id = 1; id <= 50; ++id) queue.push(id, "a", 1000, false);
  for (JobQueue::JobId id = 1; id <= 50; ++id) EXPECT_TRUE(queue.remove(id));
  EXPECT_FALSE(queue.remove(7));
  queue.push(51, "a", 10, true);
  for (JobQueue::JobId id = 52; id < 60; ++id) queue.push(id, "b", 11, true);
  EXPECT_EQ(queue.take(Lane::any)->id, 51u);
}

TEST(JobQueue, TheSmallLanePassesLargeJobsOfTheSameOwner) {
  JobQueue queue;
  queue.push(1, "a", 1000, false);
  queue.push(2, "a", 1, true);
  EXPECT_EQ(queue.take(Lane::small)->id, 2u);
  EXPECT_FALSE(queue.has(Lane::small));
  EXPECT_FALSE(queue.take(Lane::small));
  EXPECT_EQ(queue.take(Lane::any)->id, 1u);
}

TEST(JobQueue, OwnersWhoOweAreForgottenWithinABound) {
  JobQueue queue;
  for (JobQueue::JobId id = 1; id <= 20'000; ++id) {
    const std::string owner = std::to_string(id);
    queue.push(id, owner, 1, true);
    queue.charge(owner, queue.take(Lane::any)->tag, 1e9);
  }
  EXPECT_LE(queue.num_known(), 5000u);
}

struct QueuedEvent {
  int kind = 0, owner = 0, cost = 1, which = 0;
};
std::ostream& operator<<(std::ostream& out, const QueuedEvent& e) {
  constexpr const char* kKinds[] = {
      "push", "push of a new owner",          "take", "take small", "remove", "charge",
      "pass", "push of a new owner, and take"};
  return out << "{" << kKinds[e.kind] << ", owner " << e.owner << ", cost " << e.cost << ", which " << e.which
             << "}";
}

int between(int low, int high) { return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(low, high + 1)); }

std::vector<QueuedEvent> draw_events() {
  std::vector<QueuedEvent> events(static_cast<std::size_t>(between(1, 300)));
  for (QueuedEvent& e : events) {
    constexpr int kKinds[] = {0, 0, 1, 2, 2, 2, 3, 4, 5, 6, 7, 7, 7, 7, 7, 7, 7, 7};
    e = {.kind = kKinds[between(0, std::size(kKinds) - 1)],
         .owner = between(0, 4),
         .cost = between(10, 20),
         .which = between(0, 99)};
  }
  return events;
}

struct Known {
  JobQueue::JobId id;
  std::string owner;
  double cost;
  bool small;
  TimeNs due;
  // The share of the queue that it may wait for: its owner's cost with it, and how many have been taken by
  // the lane for all jobs meanwhile, beside at most how many owners.
  double own = 0;
  int taken_before = 0;
  std::size_t owners = 1;
};

constexpr double kLeast = 10, kSmallJob = 14;
constexpr TimeNs kMaxWait = 50;

void play(const std::vector<QueuedEvent>& events) {
  JobQueue queue;
  std::vector<Known> waiting;
  std::map<std::string, double> charged;
  JobQueue::JobId next_id = 1;
  int num_fresh = 0;
  TimeNs now = 1;
  double last_tag = 0;
  std::string last_owner;

  const auto forget = [&](JobQueue::JobId id) {
    const auto at = std::ranges::find(waiting, id, &Known::id);
    RC_ASSERT(at != waiting.end());
    Known known = *at;
    waiting.erase(at);
    return known;
  };
  const auto count_owners = [&] {
    for (Known& one : waiting) one.owners = std::max(one.owners, queue.num_owners());
  };
  const auto take = [&](Lane lane) {
    const auto taken = queue.take(lane);
    const auto allowed = [&](const Known& one) { return lane == Lane::any || one.small; };
    RC_ASSERT(taken.has_value() == std::ranges::any_of(waiting, allowed));
    if (!taken) return;
    const Known known = forget(taken->id);
    last_tag = taken->tag;
    last_owner = known.owner;
    RC_ASSERT(allowed(known));
    RC_ASSERT(known.due >= now);
    for (Known& one : waiting) {
      // An owner's jobs are taken in order; the small lane passes large ones.
      if (one.owner == known.owner && (lane == Lane::any || one.small)) RC_ASSERT(one.id > known.id);
      if (one.owner == known.owner)
        one.own += lane == Lane::small && one.id < known.id ? known.cost : 0;
      else if (lane == Lane::any)
        ++one.taken_before;
    }
    if (lane == Lane::small) return;
    const double rounds = std::ceil(known.own / kLeast) + 1;
    RC_ASSERT(known.taken_before <= rounds * static_cast<double>(known.owners));
  };

  const auto push = [&](const std::string& owner, double cost) {
    Known known{
        .id = next_id++, .owner = owner, .cost = cost, .small = cost <= kSmallJob, .due = now + kMaxWait};
    known.own = cost + charged[owner];
    for (const Known& one : waiting)
      if (one.owner == owner) known.own += one.cost;
    queue.push(known.id, owner, cost, known.small, known.due);
    waiting.push_back(known);
    count_owners();
  };
  const auto fresh = [&] { return "new" + std::to_string(num_fresh++); };

  for (const QueuedEvent& e : events) {
    switch (e.kind) {
      case 0:
        push(std::to_string(e.owner), e.cost);
        break;
      case 1:
        push(fresh(), e.cost);
        break;
      case 2:
        take(Lane::any);
        break;
      case 3:
        take(Lane::small);
        break;
      case 7:  // as of clients that open a connection for each call
        push(fresh(), e.cost);
        take(Lane::any);
        break;
      case 4:
        if (waiting.empty()) break;
        RC_ASSERT(queue.remove(forget(waiting[static_cast<std::size_t>(e.which) % waiting.size()].id).id));
        break;
      case 5:
        if (last_owner != "0") break;  // the others' shares are not blurred by it
        queue.charge(last_owner, last_tag, e.cost);
        charged[last_owner] += e.cost;
        for (Known& one : waiting)
          if (one.owner == last_owner) one.own += e.cost;
        break;
      default:
        now += e.which / 4;
        while (const auto late = queue.late(now)) RC_ASSERT(forget(*late).due < now);
        for (const Known& one : waiting) RC_ASSERT(one.due >= now);
    }
    RC_ASSERT(queue.size() == waiting.size());
  }
  while (queue.has(Lane::any)) take(Lane::any);
  RC_ASSERT(waiting.empty());
}

TEST(JobQueueProperty, NoOrderOfArrivalsMakesAJobWaitForMoreThanItsShare) {
  EXPECT_TRUE(rc::check([] {
    const std::vector<QueuedEvent> events = draw_events();
    for (const QueuedEvent& event : events) RC_LOG() << event << "\n";
    play(events);
  }));
}

}  // namespace
}  // namespace pagoda
