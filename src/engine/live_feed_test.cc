// Goal: what a live view is told is what the engine holds: tables, reference counts, free and cached blocks
// add up after every step, each step and each ended request is told once, and an engine that nobody looks at
// decides the same.
#include "engine/live_feed.h"

#include <gtest/gtest.h>

#include <map>

#include "engine/engine_test_support.h"

namespace pagoda {
namespace {

std::vector<Request> busy_requests() {
  std::vector<Request> requests;
  for (std::uint64_t id = 1; id <= 4; ++id) {
    requests.push_back(fake::make_request(id, {static_cast<TokenId>(id), 2, 3, 4, 5, 6}, 24));
    if (id == 1) requests.back().sampling.n = requests.back().sampling.best_of = 3;
    if (id == 1) requests.back().sampling.temperature = 1;
    requests.back().sampling.seed = id;
  }
  return requests;
}

fake::Options tight(PreemptionMode mode) {
  fake::Options options;
  options.num_blocks = 14;
  options.num_swap_blocks = 14;
  options.engine.preemption_mode = mode;
  return options;
}

EngineSnapshot look(const fake::Rig& rig, LiveFeed& feed) {
  EngineSnapshot out = rig.core->snapshot(SnapshotDetail::lean);
  feed.take(out);
  return out;
}

void expect_sound(const EngineSnapshot& state, const KvManager& kv) {
  std::map<BlockId, std::int32_t> owners;
  for (const RequestSnapshot& request : state.requests) {
    for (const SequenceSnapshot& sequence : state.sequences_of(request)) {
      EXPECT_EQ(sequence.num_blocks > 0, sequence.state == SequenceState::resident);
      for (const BlockId block : state.blocks_of(sequence)) ++owners[block];
    }
  }
  for (const auto& [block, count] : owners)
    EXPECT_EQ(count, kv.inspection().ref_count(block)) << index(block);
  for (const BlockId block : state.cached) EXPECT_FALSE(owners.contains(block)) << index(block);
  EXPECT_EQ(std::ssize(owners), kv.num_blocks() - kv.num_free_blocks());
  EXPECT_LE(std::ssize(state.cached), kv.num_free_blocks());
}

TEST(LiveFeed, IsWhatTheEngineHoldsAfterEveryStep) {
  for (const PreemptionMode mode : {PreemptionMode::swap, PreemptionMode::recompute}) {
    fake::Rig rig(tight(mode));
    LiveFeed feed;
    rig.core->add_observer(feed);
    std::vector<std::shared_ptr<fake::Collector>> sinks;
    for (const Request& request : busy_requests()) sinks.push_back(rig.submit(request));
    std::int64_t steps = 0, ended = 0, copies = 0, preempted = 0, waited = 0;
    std::map<PoolEventKind, std::int64_t> events;
    while (rig.step()) {
      const EngineSnapshot state = look(rig, feed);
      expect_sound(state, rig.core->kv());
      ASSERT_EQ(state.steps.size(), 1u);
      EXPECT_EQ(state.steps[0].number, ++steps);
      EXPECT_EQ(state.steps[0].blocks_in_use, state.num_blocks - rig.core->kv().num_free_blocks());
      copies += state.steps[0].num_copies;
      preempted += state.steps[0].num_preempted;
      ended += std::ssize(state.ended);
      for (const EventSnapshot& event : state.events) ++events[event.event.kind];
      for (const RequestSnapshot& request : state.requests) waited += request.state != GroupState::running;
      EXPECT_EQ(state.num_missed, 0);
    }
    EXPECT_EQ(steps, rig.core->steps().num_steps());
    EXPECT_EQ(ended, 4);
    EXPECT_EQ(copies, rig.runner->num_copies);
    EXPECT_GT(preempted, 0);
    EXPECT_GT(waited, 0);
    EXPECT_EQ(events[PoolEventKind::fork], 2);
    EXPECT_EQ(events[PoolEventKind::copy], copies);
    EXPECT_EQ(events[PoolEventKind::allocate], 0) << "the tables say it";
  }
}

TEST(LiveFeed, LookingChangesNoDecision) {
  std::vector<std::vector<TokenId>> tokens[2];
  for (const bool looked_at : {false, true}) {
    fake::Rig rig(tight(PreemptionMode::automatic));
    LiveFeed feed;
    if (looked_at) rig.core->add_observer(feed);
    std::vector<std::shared_ptr<fake::Collector>> sinks;
    for (const Request& request : busy_requests()) sinks.push_back(rig.submit(request));
    while (rig.step())
      if (looked_at) (void)look(rig, feed);
    for (const auto& sink : sinks)
      for (const auto& [index, choice] : sink->choices) tokens[looked_at].push_back(choice.tokens);
  }
  EXPECT_EQ(tokens[0], tokens[1]);
}

TEST(LiveFeed, WhoDoesNotTakeLosesTheOldestAndIsTold) {
  LiveFeed feed;
  const StepReport report{.batch = {}, .preempted = {}, .result = {}};
  for (std::int64_t i = 0; i < 10'000; ++i) feed.on_outcome({.report = report, .changes = {}, .usage = {}});
  for (std::int32_t i = 0; i < 10'000; ++i)
    feed.journal().on_pool_event({.kind = PoolEventKind::evict, .block = i});
  EngineSnapshot state;
  feed.take(state);
  EXPECT_EQ(state.num_missed + std::ssize(state.steps) + std::ssize(state.events), 20'000);
  EXPECT_LE(state.steps.size(), 4096u);
  feed.take(state);
  EXPECT_TRUE(state.steps.empty() && state.num_missed == 0);
}

}  // namespace
}  // namespace pagoda
