// Goal: under any order of arrivals, admissions, preemptions and ends, the queues agree with a list that is
// sorted anew each time. Method: random operations drawn from one seed.
#include "scheduler/vllm/group_queues.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>

namespace pagoda {
namespace {

std::unique_ptr<SequenceGroup> group_of(std::uint64_t order, std::int64_t rank) {
  auto group = std::make_unique<SequenceGroup>();
  group->order = order;
  group->rank = rank;
  group->forked = true;
  group->sequences.push_back(std::make_unique<Sequence>());
  return group;
}

void set_sequences(SequenceGroup& group, SequenceState state) {
  for (const auto& sequence : group.sequences) sequence->state = state;
}

// Its groups of one state, by (rank, order).
std::vector<const SequenceGroup*> sorted(const std::map<const SequenceGroup*, GroupState>& model,
                                         GroupState state) {
  std::vector<const SequenceGroup*> out;
  for (const auto& [group, in] : model)
    if (in == state) out.push_back(group);
  std::ranges::sort(out, {}, [](const SequenceGroup* g) { return std::pair(g->rank, g->order); });
  return out;
}

void compare_queues(std::uint64_t seed) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 rng(seed);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(rng() % n); };
  GroupQueues queues;
  std::vector<std::unique_ptr<SequenceGroup>> groups;
  std::map<const SequenceGroup*, GroupState> model;
  for (std::uint64_t step = 1; step <= 300; ++step) {
    if (groups.empty() || below(4) == 0) {
      SequenceGroup& group = *groups.emplace_back(group_of(step, static_cast<std::int64_t>(below(3))));
      queues.insert_waiting(group);
      model[&group] = GroupState::waiting;
    } else {
      const std::size_t at = below(groups.size());
      SequenceGroup& group = *groups[at];
      queues.remove(group);
      group.rank = static_cast<std::int64_t>(below(3));
      switch (below(4)) {
        case 0:
          set_sequences(group, SequenceState::parked);
          queues.insert_waiting(group);
          break;
        case 1:
          set_sequences(group, SequenceState::swapped);
          queues.insert_swapped(group);
          break;
        case 2: {
          set_sequences(group, SequenceState::resident);
          const std::size_t position = queues.insert_running(group);
          ASSERT_EQ(queues.running()[position], &group);
          break;
        }
        default:
          model.erase(&group);
          groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(at));
          continue;
      }
      model[&group] = group.state;
    }
    using Groups = std::vector<const SequenceGroup*>;
    const auto list = [](const auto& queue) { return Groups(queue.begin(), queue.end()); };
    ASSERT_EQ(list(queues.waiting()), sorted(model, GroupState::waiting));
    ASSERT_EQ(list(queues.swapped()), sorted(model, GroupState::swapped));
    ASSERT_EQ(list(queues.running()), sorted(model, GroupState::running));
    ASSERT_EQ(queues.empty(), model.empty());
    ASSERT_EQ(queues.num_reserved(), static_cast<std::int32_t>(queues.running().size()));
    queues.check_invariants();
    const std::size_t in_turn = below(queues.running().size() + 3), from = below(5);
    queues.set_num_in_turn(in_turn);
    Groups wanted = list(queues.running());
    wanted.resize(std::min(in_turn, wanted.size()));
    wanted.erase(wanted.begin(), wanted.begin() + static_cast<std::ptrdiff_t>(std::min(from, wanted.size())));
    ASSERT_EQ(list(queues.in_turn(from)), wanted);
  }
}

TEST(GroupQueuesProperty, AgreeWithASortedList) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) compare_queues(seed);
}

TEST(GroupQueues, AGroupOfOneSequenceHasNoneParked) {
  GroupQueues queues;
  auto group = group_of(1, 0);
  set_sequences(*group, SequenceState::resident);
  queues.insert_running(*group);
  EXPECT_FALSE(queues.any_parked());
  group->sequences.push_back(std::make_unique<Sequence>());
  EXPECT_TRUE(queues.any_parked());
  EXPECT_EQ(queues.num_reserved(), 2);
}

}  // namespace
}  // namespace pagoda
