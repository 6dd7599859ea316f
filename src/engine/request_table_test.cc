// RequestTable against a naive model: lists that are searched and counted each time.
#include "engine/request_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "engine/fake_constraint.h"

namespace pagoda {
namespace {

struct Holder final : OutputSink {
  explicit Holder(std::shared_ptr<int> held) : held(std::move(held)) {}
  void on_output(RequestOutput) override {}
  std::shared_ptr<int> held;
};

struct Model {
  struct Entry {
    RequestId id{};
    TimeNs deadline = 0, first_scheduled = 0, preempted_at = 0, preempted_for = 0;
    bool constrained = false;
  };
  std::vector<Entry> served;
  std::int64_t added = 0, started = 0, finished = 0;
};

std::unique_ptr<RequestState> make_state(std::uint64_t id, TimeNs deadline, bool constrained) {
  auto state = std::make_unique<RequestState>();
  state->group.request.id = RequestId{id};
  state->group.request.deadline = deadline;
  state->group.sequences.push_back(std::make_unique<Sequence>());
  if (constrained) {
    const fake::Factory factory(
        [] { return std::make_unique<fake::Choices>(std::make_shared<fake::Choices::List>()); });
    state->constraints = std::make_unique<ConstraintSet>(factory, SequenceId{id});
  }
  return state;
}

void expect_same_table(RequestTable& table, const Model& model) {
  EXPECT_EQ(table.size(), std::ssize(model.served));
  EXPECT_EQ(table.empty(), model.served.empty());
  EXPECT_EQ(table.num_added(), model.added);
  EXPECT_EQ(table.num_finished(), model.finished);
  EXPECT_EQ(table.num_started(), model.started);
  EXPECT_EQ(table.num_waiting(), std::ranges::count(model.served, 0, &Model::Entry::first_scheduled));
  EXPECT_EQ(table.num_constrained(), std::ranges::count(model.served, true, &Model::Entry::constrained));
  std::vector<std::pair<TimeNs, RequestId>> deadlines;
  for (const Model::Entry& entry : model.served) {
    if (entry.deadline != 0) deadlines.emplace_back(entry.deadline, entry.id);
    const RequestState* const state = table.find(entry.id);
    ASSERT_NE(state, nullptr);
    EXPECT_EQ(&table.of(state->group), state);
    EXPECT_EQ(state->times.first_scheduled, entry.first_scheduled);
    EXPECT_EQ(state->preempted_at, entry.preempted_at);
    EXPECT_EQ(state->preempted_for, entry.preempted_for);
  }
  std::ranges::sort(deadlines);
  EXPECT_TRUE(std::ranges::equal(table.deadlines(), deadlines));
}

void compare_with_model(std::uint64_t seed) {
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  RequestTable table;
  Model model;
  std::uint64_t next = 1;
  for (TimeNs now = 1; now < 400; ++now) {
    const std::size_t verb = below(4);
    if (verb == 0 || model.served.empty()) {
      const TimeNs deadline = below(2) == 0 ? 0 : static_cast<TimeNs>(1 + below(50));
      const bool constrained = below(3) == 0;
      table.add(make_state(next, deadline, constrained));
      model.served.push_back({.id = RequestId{next++}, .deadline = deadline, .constrained = constrained});
      ++model.added;
    } else if (verb == 1) {
      const auto it = model.served.begin() + static_cast<std::ptrdiff_t>(below(model.served.size()));
      table.remove(*table.find(it->id));
      EXPECT_EQ(table.find(it->id), nullptr);
      if (it->first_scheduled == 0) ++model.started;
      ++model.finished;
      model.served.erase(it);
    } else {  // some are scheduled, some others preempted for it
      std::vector<ScheduledRef> batch;
      std::vector<SequenceGroup*> preempted;
      for (Model::Entry& entry : model.served) {
        SequenceGroup& group = table.find(entry.id)->group;
        const std::size_t place = below(3);
        if (place == 0) {
          batch.push_back({.group = &group, .sequence = group.sequences.front().get()});
          if (entry.first_scheduled == 0) {
            entry.first_scheduled = now;
            ++model.started;
          }
          if (entry.preempted_at != 0) entry.preempted_for += now - entry.preempted_at;
          entry.preempted_at = 0;
        } else if (place == 1) {
          preempted.push_back(&group);
          if (entry.first_scheduled != 0) entry.preempted_at = now;
        }
      }
      table.note_scheduled(now, batch, preempted, now);
      if (below(2) == 0) table.note_retired(now);
    }
    expect_same_table(table, model);
  }
}

TEST(RequestTable, AgreesWithAModel) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) compare_with_model(seed);
}

// The step's batch points into it.
TEST(RequestTable, WhatEndedStaysUntilTheStepThatNamesItRetires) {
  RequestTable table;
  const auto alive = std::make_shared<int>();
  std::vector<ScheduledRef> batch;
  const auto add = [&](std::uint64_t id) {
    RequestState& state = table.add(make_state(id, 0, false));
    state.sink = std::make_shared<Holder>(alive);
    batch.push_back({.group = &state.group, .sequence = state.group.sequences.front().get()});
  };
  add(1);
  table.note_scheduled(1, batch, {}, 1);
  table.note_scheduled(2, batch, {}, 2);
  add(2);
  table.note_retired(1);
  table.remove(*table.find(RequestId{1}));
  table.remove(*table.find(RequestId{2}));
  EXPECT_EQ(alive.use_count(), 2) << "request 2 was never scheduled, and goes at once";
  EXPECT_TRUE(table.empty());
  table.note_retired(2);
  EXPECT_EQ(alive.use_count(), 1);
}

TEST(RequestTable, MarksAreTakenOnceInOrder) {
  RequestTable table;
  table.mark_aborted({.id = RequestId{2}, .index = std::nullopt, .error = ok_status()});
  table.mark_aborted({.id = RequestId{1}, .index = 3, .error = ok_status()});
  const std::vector<PendingAbort> marked = table.take_aborts();
  ASSERT_EQ(marked.size(), 2u);
  EXPECT_EQ(marked[0].id, RequestId{2});
  EXPECT_EQ(marked[1].index, 3);
  EXPECT_TRUE(table.take_aborts().empty());
}

}  // namespace
}  // namespace pagoda
