// Goal: with steps that are planned ahead, clients get the tokens, log-probabilities and ends that they get
// without, whatever comes, goes, is preempted or fails meanwhile; nothing is cached that was not computed,
// and no memory is lost. Method: seeds of loads on a model whose answers depend on every byte of K/V, in both
// modes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <random>

#include "decoding/ngram_proposer.h"
#include "engine/beam_reference.h"
#include "engine/engine_test_support.h"
#include "engine/engine_thread.h"

namespace pagoda {
namespace {

using fake::Collector;
using fake::make_request;
using fake::Options;
using fake::Rig;

// Counts what was planned ahead, and checks that it may be.
struct Watch final : StepObserver {
  void on_scheduled(std::int64_t number, const ScheduledBatch& batch,
                    std::span<SequenceGroup* const> preempted) override {
    EXPECT_EQ(number, num_scheduled + 1);
    num_scheduled = number;
    if (num_scheduled > num_retired + 1) EXPECT_TRUE(preempted.empty()) << "nobody gives way for such a step";
    for (const ScheduledSequence& sequence : batch.sequences) num_unknown += sequence.drawn_at >= 0 ? 1 : 0;
  }
  void on_step(const StepReport& report) override {
    EXPECT_EQ(report.number, ++num_retired);
    num_ahead += report.next_planned ? 1 : 0;
    for (std::size_t i = 0; i < report.batch.sequences.size(); ++i) {
      const ScheduledSequence& sequence = report.batch.sequences[i];
      num_surplus += report.refs[i].sequence->finished() ? 1 : 0;
      if (report.next_planned)
        EXPECT_TRUE(!sequence.spec.beam && sequence.spec.num_candidates == 1 &&
                    sequence.num_draft_tokens == 0);
    }
  }
  std::int64_t num_scheduled = 0, num_retired = 0, num_ahead = 0, num_unknown = 0, num_surplus = 0;
};

struct Load {
  Options options;
  struct Arrival {
    Request request;
    int at = 0, abort_at = -1;  // turns
    bool abort_one = false;
  };
  std::vector<Arrival> arrivals;
};

Load draw_load(std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  const auto between = [&](int low, int high) {
    return low + static_cast<int>(rng() % static_cast<std::uint64_t>(high - low + 1));
  };
  Load out;
  Options& options = out.options;
  EngineConfig& engine = options.engine;
  engine.max_model_len = 48;
  engine.block_size = between(1, 6);
  engine.max_num_seqs = between(2, 10);
  engine.enable_chunked_prefill = between(0, 3) > 0;
  engine.max_num_batched_tokens = engine.enable_chunked_prefill ? between(1, 40) : 48;
  engine.enable_prefix_caching = between(0, 2) > 0;
  engine.scheduling_policy = static_cast<SchedulingPolicy>(std::max(0, between(-2, 2)));
  engine.preemption_mode = static_cast<PreemptionMode>(rng() % std::size(kPreemptionPolicies));
  engine.preemption_costs = {.per_block_copied = 1, .per_token_recomputed = 1};
  engine.forced_drafts = true;
  if (between(0, 7) == 0)
    engine.speculative = {.num_speculative_tokens = 3, .prompt_lookup_max = 2, .prompt_lookup_min = 1};
  options.num_blocks = 48 / engine.block_size + between(1, 30);
  if (between(0, 2) == 0) {
    options.groups = one_full_group(engine.block_size);
    options.groups->push_back({.kind = KvKind::window,
                               .window = between(2, 12),
                               .tokens_per_row = engine.block_size,
                               .pages_per_row = between(1, 2)});
    options.num_blocks *= 3;
  }
  options.virtual_kv = between(0, 2) == 0;
  options.num_swap_blocks = between(0, 1) * between(1, options.num_blocks);
  for (int i = between(4, 16); i > 0; --i) {
    Load::Arrival& arrival = out.arrivals.emplace_back();
    std::vector<TokenId> prompt;
    for (int shared = between(0, 12), at = 0; at < shared; ++at)
      prompt.push_back(static_cast<TokenId>(10 + at));
    for (int own = between(1, 6); own > 0; --own) prompt.push_back(static_cast<TokenId>(between(1, 3)));
    Request request = make_request(out.arrivals.size(), std::move(prompt), between(1, 20));
    SamplingParams& sampling = request.sampling;
    sampling.ignore_eos = between(0, 1) == 0;
    sampling.stop_token_ids = {static_cast<TokenId>(between(4, 39)), static_cast<TokenId>(between(4, 39))};
    sampling.min_tokens = between(0, 3) == 0 ? between(0, sampling.max_tokens) : 0;
    sampling.temperature = static_cast<float>(between(0, 1));
    sampling.seed = seed + out.arrivals.size();
    if (between(0, 2) == 0) sampling.logprobs = 1;
    if (between(0, 5) == 0) sampling.prompt_logprobs = 1;
    if (between(0, 5) == 0) sampling.n = sampling.best_of = between(2, 3);
    if (between(0, 7) == 0) sampling.best_of = sampling.n + 1;
    if (between(0, 9) == 0) {
      sampling.use_beam_search = true;
      sampling.temperature = 0;
      sampling.min_tokens = 0;
    }
    if (between(0, 7) == 0) sampling.bad_words = {{1, 2}};  // which the fake model does not know
    request.priority = between(0, 2);
    request.tenant = request.priority == 0 ? "few" : "many";
    arrival.request = std::move(request);
    arrival.at = between(0, 25);
    if (between(0, 4) == 0) arrival.abort_at = arrival.at + between(0, 12);
    arrival.abort_one = between(0, 1) == 0;
  }
  return out;
}

std::vector<std::shared_ptr<Collector>> run_load(const Load& load, bool async, Watch& watch) {
  Options options = load.options;
  options.engine.async_scheduling = async;
  Rig rig(options);
  rig.core->add_observer(watch);
  std::vector<std::shared_ptr<Collector>> sinks(load.arrivals.size());
  for (int turn = 0; turn < 40 || !rig.core->idle(); ++turn) {
    for (std::size_t i = 0; i < sinks.size(); ++i) {
      const Load::Arrival& arrival = load.arrivals[i];
      if (arrival.at == turn) {
        auto sink = std::make_shared<Collector>();
        if (rig.core->submit(arrival.request, sink).ok()) sinks[i] = sink;
      }
      if (arrival.abort_at != turn || sinks[i] == nullptr) continue;
      if (arrival.abort_one)
        rig.core->abort_sequence(arrival.request.id, 0);
      else
        rig.core->abort(arrival.request.id);
      if (!arrival.abort_one && !arrival.request.sampling.use_beam_search)
        EXPECT_TRUE(sinks[i]->finished) << "at once, though a step is in flight";
    }
    rig.step();
    if (turn > 3000) {
      ADD_FAILURE() << "no progress";
      break;
    }
  }
  EXPECT_EQ(rig.core->kv().num_free_blocks(), options.num_blocks) << "a leak";
  EXPECT_EQ(rig.core->kv().swap().num_free_swap_blocks(), options.num_swap_blocks);
  return sinks;
}

void expect_same_answers(const Load& load, const std::vector<std::shared_ptr<Collector>>& got,
                         const std::vector<std::shared_ptr<Collector>>& wanted) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    SCOPED_TRACE(::testing::Message() << "request " << i + 1);
    ASSERT_EQ(got[i] != nullptr, wanted[i] != nullptr);
    if (got[i] == nullptr) continue;
    EXPECT_TRUE(got[i]->finished && got[i]->error.ok());
    if (load.arrivals[i].abort_at >= 0) continue;  // how far it came depends on the turns
    ASSERT_EQ(got[i]->choices.size(), wanted[i]->choices.size());
    for (const auto& [index, choice] : wanted[i]->choices) {
      const Collector::Choice& other = got[i]->choices.at(index);
      EXPECT_EQ(other.tokens, choice.tokens);
      EXPECT_EQ(other.logprobs, choice.logprobs);
      EXPECT_EQ(other.cumulative_logprob, choice.cumulative_logprob);
      EXPECT_EQ(other.reason, choice.reason);
    }
    ASSERT_EQ(got[i]->prompt_logprobs.size(), wanted[i]->prompt_logprobs.size());
    for (std::size_t at = 1; at < wanted[i]->prompt_logprobs.size(); ++at)
      EXPECT_EQ(got[i]->prompt_logprobs[at]->chosen.logprob, wanted[i]->prompt_logprobs[at]->chosen.logprob);
    fake::expect_as_reference(load.arrivals[i].request, *got[i], load.options.engine.max_model_len);
  }
}

TEST(AsyncSteps, GiveTheAnswersOfSynchronousOnes) {
  Watch async, sync;
  for (std::uint64_t seed = 1; seed <= 300 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const Load load = draw_load(seed);
    Watch one, other;
    expect_same_answers(load, run_load(load, true, one), run_load(load, false, other));
    for (const auto member :
         {&Watch::num_retired, &Watch::num_ahead, &Watch::num_unknown, &Watch::num_surplus}) {
      async.*member += one.*member;
      sync.*member += other.*member;
    }
  }
  EXPECT_EQ(sync.num_ahead, 0);
  EXPECT_GT(async.num_ahead, async.num_retired / 5);
  EXPECT_GT(async.num_unknown, 1000);
  EXPECT_GT(async.num_surplus, 100);
}

// A sequence that ends with the first step has a row in the second, which completes a block.
TEST(AsyncSteps, ASurplusRowIsNeitherToldNorCachedAndHoldsItsBlocksUntilItsStepEnds) {
  for (const bool async : {false, true}) {
    SCOPED_TRACE(async);
    Options options;
    options.virtual_kv = false;
    options.engine.async_scheduling = async;
    Rig rig(options);
    Watch watch;
    rig.core->add_observer(watch);
    Request request = make_request(1, {1, 2, 3}, 20);
    const TokenId first = fake::reference(request, 0, 64).tokens.front();
    request.sampling.stop_token_ids = {first};
    const auto sink = rig.submit(request);
    rig.step();
    EXPECT_TRUE(sink->finished);
    EXPECT_EQ(sink->choices.at(0).tokens, std::vector<TokenId>{first});
    EXPECT_EQ(sink->choices.at(0).reason, FinishReason::stop);
    EXPECT_EQ(rig.core->requests().size(), 0);
    EXPECT_EQ(rig.core->steps().num_in_flight(), async ? 1 : 0);
    EXPECT_EQ(rig.core->idle(), !async);
    EXPECT_EQ(rig.core->kv().num_free_blocks(), options.num_blocks - (async ? 1 : 0));
    EXPECT_EQ(rig.step(), async);
    EXPECT_EQ(watch.num_surplus, async ? 1 : 0);
    EXPECT_TRUE(rig.core->idle());
    EXPECT_EQ(rig.core->kv().num_free_blocks(), options.num_blocks);
    const auto again = rig.submit(make_request(2, {1, 2, 3, first, 9}, 2));
    rig.run_all();
    EXPECT_EQ(again->num_cached_tokens, 0) << "the block was never confirmed";
  }
}

TEST(AsyncSteps, APromptHitsWhatAStepInFlightComputes) {
  for (const bool async : {false, true}) {
    Options options;
    options.engine.async_scheduling = async;
    Rig rig(options);
    const auto one = rig.submit(make_request(1, {1, 2, 3, 4, 5, 6, 7, 8, 9}, 8));
    rig.step();
    const auto other = rig.submit(make_request(2, {1, 2, 3, 4, 5, 6, 7, 8, 9}, 8));
    rig.run_all();
    EXPECT_EQ(other->num_cached_tokens, 8);
    EXPECT_EQ(other->choices.at(0).tokens, one->choices.at(0).tokens);
  }
}

TEST(AsyncSteps, AFailureEndsBothStepsAndLosesNothing) {
  for (int fail_at = 0; fail_at < 6; ++fail_at) {
    SCOPED_TRACE(fail_at);
    Options options;
    options.engine.async_scheduling = true;
    Rig rig(options);
    rig.runner->fail_at_step = fail_at;
    std::vector<std::shared_ptr<Collector>> sinks;
    for (std::uint64_t id = 1; id <= 3; ++id) sinks.push_back(rig.submit(make_request(id, {1, 2, 3}, 9)));
    int turns = 0;
    while (rig.core->step()) ++turns;
    EXPECT_EQ(turns, fail_at);
    EXPECT_FALSE(rig.core->status().ok());
    EXPECT_EQ(rig.core->steps().num_in_flight(), 0);
    rig.core->fail_all(rig.core->status());
    for (const auto& sink : sinks) {
      EXPECT_TRUE(sink->finished && !sink->error.ok());
      EXPECT_EQ(std::ssize(sink->choices.at(0).tokens), fail_at);
    }
    EXPECT_TRUE(rig.core->idle());
    EXPECT_EQ(rig.core->kv().num_free_blocks(), options.num_blocks);
  }
}

// The second step, which request 2 joins, is in flight while the first one fails.
TEST(AsyncSteps, APoisonRecordNamesTheRequestsOfTheStepThatFailed) {
  const std::string path = ::testing::TempDir() + concat("async-poison-", getpid());
  {
    auto record = *PoisonRecord::open(path, [] { return std::int64_t{1000}; });
    const RequestDigest one = digest_of(make_request(1, {1, 2, 3}, 4)),
                        two = digest_of(make_request(2, {4, 5}, 4));
    const std::array both = {one, two};
    record->begin(std::span(&one, 1), 0, 7);
    record->begin(both, 0, 8);
    record->condemn(0, 7);
    record->end(0, 7);
    record->end(0, 8);
    EXPECT_TRUE(record->refuses(make_request(3, {1, 2, 3}, 4)));
    EXPECT_FALSE(record->refuses(make_request(3, {4, 5}, 4)));
  }
  std::remove(path.c_str());
}

TEST(AsyncSteps, SleepAndFailAllRetireWhatIsInFlight) {
  Options options;
  options.engine.async_scheduling = true;
  Rig rig(options);
  const Request request = make_request(1, {1, 2, 3}, 9);
  const auto sink = rig.submit(request);
  rig.step();
  ASSERT_EQ(rig.core->steps().num_in_flight(), 1);
  ASSERT_TRUE(rig.core->sleep(1).ok());
  EXPECT_EQ(rig.core->steps().num_in_flight(), 0);
  EXPECT_EQ(sink->choices.at(0).tokens.size(), 2u) << "what the step drew is delivered";
  EXPECT_FALSE(rig.step());
  ASSERT_TRUE(rig.core->wake_up({}).ok());
  rig.step();
  ASSERT_EQ(rig.core->steps().num_in_flight(), 1);
  rig.core->fail_all(unavailable("The server is shutting down."));
  EXPECT_EQ(rig.core->steps().num_in_flight(), 0);
  const std::vector<TokenId> wanted = fake::reference(request, 0, 64).tokens;
  EXPECT_TRUE(sink->finished && std::ranges::equal(sink->choices.at(0).tokens, std::span(wanted).first(4)));
  EXPECT_EQ(rig.core->kv().num_free_blocks(), options.num_blocks);
}

TEST(AsyncSteps, AnEngineThreadStopsWithAStepInFlight) {
  for (int round = 0; round < 20; ++round) {
    Options options;
    options.engine.async_scheduling = true;
    Rig rig(options);
    EngineThread engine(options.engine, std::move(rig.core));
    std::vector<std::shared_ptr<Collector>> sinks;
    for (std::uint64_t id = 1; id <= 6; ++id) {
      sinks.push_back(std::make_shared<Collector>());
      ASSERT_TRUE(engine.submit(make_request(id, {1, 2, static_cast<TokenId>(id)}, 30), sinks.back()).ok());
      if (id == 3) engine.abort(RequestId{2});
    }
    if (round % 2 == 0) engine.wait_idle(std::chrono::milliseconds(round));
    engine.stop();
    for (const auto& sink : sinks) EXPECT_TRUE(sink->finished);
  }
}

}  // namespace
}  // namespace pagoda
