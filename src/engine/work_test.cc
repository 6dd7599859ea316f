// Goal: a request for a vector is an ordinary scheduled prompt that ends with its vector, whatever is
// chunked, cached or beside it; a prompt that may not be split is not; and a passed deadline ends a request,
// running or waiting, as an abort between two steps.
#include <gtest/gtest.h>

#include "engine/beam_reference.h"
#include "engine/engine_test_support.h"

namespace pagoda {
namespace {

using fake::Collector;
using fake::make_request;
using fake::Options;
using fake::Rig;

Request vector_request(std::uint64_t id, std::vector<TokenId> prompt, PoolingType type, bool whole_prompt) {
  Request request = make_request(id, std::move(prompt), 0);
  request.work = {
      .kind = WorkKind::embed, .pooling = {.type = type, .dimensions = 3}, .whole_prompt = whole_prompt};
  return request;
}

// Chunks of each sequence, by id.
struct Chunks final : StepObserver {
  void on_step(const StepReport& report) override {
    for (const ScheduledSequence& sequence : report.batch.sequences)
      sizes[sequence.id].push_back(static_cast<std::int32_t>(sequence.tokens.size()));
  }
  std::map<SequenceId, std::vector<std::int32_t>> sizes;
};

TEST(Work, AVectorIsWhatItsPromptGivesHoweverItIsComputed) {
  for (const std::int32_t budget : {64, 7}) {
    for (const bool caching : {true, false}) {
      Options options;
      options.engine.max_num_batched_tokens = budget;
      options.engine.enable_prefix_caching = caching;
      Rig rig(options);
      rig.runner->makes_vectors = true;
      std::vector<Request> requests;
      std::vector<std::shared_ptr<Collector>> sinks;
      for (std::uint64_t id = 1; id <= 12; ++id) {
        std::vector<TokenId> prompt = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
        prompt.push_back(static_cast<TokenId>(id % 5));
        const auto type = static_cast<PoolingType>(id % 3);
        requests.push_back(vector_request(id, prompt, type, false));
        sinks.push_back(rig.submit(requests.back()));
      }
      rig.run_all();
      std::int64_t hits = 0;
      for (std::size_t i = 0; i < requests.size(); ++i) {
        ASSERT_TRUE(sinks[i]->finished && sinks[i]->error.ok());
        EXPECT_EQ(sinks[i]->choices[0].reason, FinishReason::stop);
        EXPECT_TRUE(sinks[i]->choices[0].tokens.empty());
        EXPECT_EQ(sinks[i]->vector,
                  fake::pooled(fake::attended_after(requests[i].prompt_token_ids), requests[i].work.pooling));
        // The rows of a cached prefix are missing: only the last token's vector can do without.
        if (requests[i].work.pooling.type != PoolingType::last) EXPECT_EQ(sinks[i]->num_cached_tokens, 0);
        hits += sinks[i]->num_cached_tokens;
      }
      EXPECT_EQ(hits > 0, caching);
      EXPECT_EQ(rig.core->kv().num_free_blocks(), options.num_blocks);
    }
  }
}

TEST(Work, APromptThatMayNotBeSplitRunsInOneStepOrIsRefused) {
  Options options;
  options.engine.max_num_batched_tokens = 20;
  Rig rig(options);
  rig.runner->makes_vectors = true;
  Chunks chunks;
  rig.core->add_observer(chunks);
  std::vector<std::shared_ptr<Collector>> sinks;
  std::vector<Request> requests;
  for (std::uint64_t id = 1; id <= 6; ++id) {
    // Odd ones may be split; the even ones do not fit beside them.
    requests.push_back(vector_request(id, std::vector<TokenId>(17, static_cast<TokenId>(id)),
                                      PoolingType::mean, id % 2 == 0));
    sinks.push_back(rig.submit(requests.back()));
  }
  rig.scheduler->set_token_budget(5);  // even below what the prompt has: it gets on alone
  rig.run_all();
  std::size_t split = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    ASSERT_TRUE(sinks[i]->finished && sinks[i]->error.ok());
    EXPECT_EQ(sinks[i]->vector,
              fake::pooled(fake::attended_after(requests[i].prompt_token_ids), requests[i].work.pooling));
    const auto& sizes = chunks.sizes[SequenceId{i + 1}];
    if (requests[i].work.whole_prompt) EXPECT_EQ(sizes, std::vector<std::int32_t>({17}));
    split += sizes.size() > 1 ? 1 : 0;
  }
  EXPECT_EQ(split, 3u);
  const Status status =
      rig.core->validate(vector_request(9, std::vector<TokenId>(21, 1), PoolingType::last, true));
  EXPECT_EQ(status.code(), StatusCode::invalid_argument);
  EXPECT_EQ(status.param(), "prompt");
}

TEST(Work, AServerEitherGeneratesOrMakesVectors) {
  Rig rig{Options{}};
  const Request vector = vector_request(1, {1, 2}, PoolingType::last, false),
                text = make_request(2, {1, 2}, 3);
  EXPECT_EQ(rig.core->validate(vector).code(), StatusCode::invalid_argument);
  EXPECT_TRUE(rig.core->validate(text).ok());
  rig.runner->makes_vectors = true;
  EXPECT_TRUE(rig.core->validate(vector).ok());
  EXPECT_EQ(rig.core->validate(text).code(), StatusCode::invalid_argument);
  Request both = vector;
  both.sampling.max_tokens = 1;
  EXPECT_EQ(rig.core->validate(both).code(), StatusCode::invalid_argument);
}

struct Aborts final : StepObserver {
  void on_abort(RequestId id) override { ids.push_back(id); }
  std::vector<RequestId> ids;
};

TEST(Deadline, WhatIsLateIsAbortedRunningOrWaiting) {
  Options options;
  options.engine.max_num_seqs = 2;
  Rig rig(options);
  Aborts aborts;
  rig.core->add_observer(aborts);
  const TimeNs ms = 1'000'000;
  Request running = make_request(1, {1, 2, 3}, 30), other = make_request(2, {4, 5}, 30),
          waiting = make_request(3, {6, 7}, 5), in_time = make_request(4, {8}, 4);
  running.deadline = rig.clock.time + 10 * ms;
  running.sampling.n = running.sampling.best_of = 1;
  waiting.deadline = rig.clock.time + 5 * ms;
  in_time.deadline = rig.clock.time + 500 * ms;
  const auto a = rig.submit(running), b = rig.submit(other), c = rig.submit(waiting), d = rig.submit(in_time);
  while (!c->finished) ASSERT_TRUE(rig.step());
  EXPECT_EQ(rig.clock.time, 1 + 5 * ms);
  EXPECT_EQ(c->error.code(), StatusCode::deadline_exceeded);
  EXPECT_TRUE(c->choices[0].tokens.empty());
  EXPECT_FALSE(a->finished);
  rig.run_all();
  EXPECT_EQ(a->error.code(), StatusCode::deadline_exceeded);
  EXPECT_EQ(a->choices[0].reason, FinishReason::abort);
  EXPECT_EQ(a->choices[0].tokens.size(), 9u);  // a token a millisecond
  EXPECT_TRUE(b->error.ok() && d->error.ok());
  fake::expect_as_reference(other, *b, options.engine.max_model_len);
  fake::expect_as_reference(in_time, *d, options.engine.max_model_len);
  EXPECT_EQ(aborts.ids, std::vector<RequestId>({RequestId{3}, RequestId{1}}));
  EXPECT_EQ(rig.core->kv().num_free_blocks(), options.num_blocks);
}

// The last request may be the late one: then there is nothing left to run.
TEST(Deadline, AnEngineWhoseLastRequestIsLateIsIdle) {
  Rig rig{Options{}};
  Request request = make_request(1, {1, 2, 3}, 30);
  request.deadline = rig.clock.time;
  const auto sink = rig.submit(request);
  EXPECT_FALSE(rig.step());
  EXPECT_TRUE(sink->finished && rig.core->idle());
}

}  // namespace
}  // namespace pagoda
