#include "engine/engine_core.h"

#include <gtest/gtest.h>

#include <array>
#include <random>

#include "engine/beam_reference.h"
#include "engine/engine_test_support.h"

namespace pagoda {
namespace {

using fake::Collector;
using fake::expect_as_reference;
using fake::make_request;
using fake::Options;
using fake::Rig;

TEST(EngineCore, OneRequestGivesTheReferenceTokensAndFreesEverything) {
  Rig rig({});
  const Request request = make_request(1, {3, 1, 4, 1, 5}, 10);
  const auto sink = rig.submit(request);
  EXPECT_EQ(rig.run_all(), 10);
  expect_as_reference(request, *sink, 64);
  EXPECT_EQ(sink->num_outputs, 10);
  EXPECT_EQ(rig.core->kv().num_free_blocks(), 64);
  EXPECT_FALSE(rig.core->step());
}

TEST(EngineCore, TheLongPromptRunsInChunksBesideDecodes) {
  Options options;
  options.engine.max_num_batched_tokens = 8;
  Rig rig(options);
  const Request first = make_request(1, {1, 2, 3}, 20),
                second = make_request(2, std::vector<TokenId>(30, 7), 5);
  const auto a = rig.submit(first);
  rig.step();
  const auto b = rig.submit(second);
  for (int i = 0; i < 4; ++i) {  // 30 prompt tokens at 7 a step
    rig.step();
    EXPECT_EQ(a->num_outputs, 2 + i) << "the decode waits for the long prompt";
    EXPECT_EQ(b->num_outputs, 0);
  }
  rig.step();
  EXPECT_EQ(b->num_outputs, 1);
  rig.run_all();
  expect_as_reference(first, *a, 64);
  expect_as_reference(second, *b, 64);
}

TEST(EngineCore, ParallelSamplesShareThePromptAndComputeItOnce) {
  Options options;
  options.engine.enable_prefix_caching = false;
  Rig rig(options);
  Request request = make_request(1, std::vector<TokenId>(10, 5), 8);
  request.sampling.temperature = 1;
  request.sampling.seed = 42;
  request.sampling.n = request.sampling.best_of = 4;
  const auto sink = rig.submit(request);
  rig.step();
  EXPECT_EQ(rig.core->kv().inspection().usage().blocks_in_use, 3) << "four sequences, one prompt";
  EXPECT_EQ(rig.core->kv().inspection().usage().blocks_without_sharing, 12);
  rig.run_all();
  EXPECT_EQ(rig.runner->num_computed_tokens, 10 + 4 * 7);
  EXPECT_EQ(rig.runner->num_copies, 3) << "the fourth writes in place";
  expect_as_reference(request, *sink, 64);
}

TEST(EngineCore, BestOfTellsTheBestAtTheEnd) {
  Rig rig({});
  Request request = make_request(1, {9, 9, 9}, 6);
  request.sampling.temperature = 1;
  request.sampling.seed = 5;
  request.sampling.n = 2;
  request.sampling.best_of = 5;
  request.sampling.logprobs = 0;
  const auto sink = rig.submit(request);
  rig.run_all();
  EXPECT_EQ(sink->num_outputs, 1);
  expect_as_reference(request, *sink, 64);
}

TEST(EngineCore, PreemptionTakesTheLatestAndChangesNoToken) {
  Options options;
  options.num_blocks = 10;  // 40 slots
  options.engine.enable_prefix_caching = false;
  options.engine.max_model_len = 40;
  Rig rig(options);
  std::vector<Request> requests;
  std::vector<std::shared_ptr<Collector>> sinks;
  for (std::uint64_t i = 1; i <= 3; ++i) {
    requests.push_back(make_request(i, {static_cast<TokenId>(i), 2, 3, 4}, 20));
    sinks.push_back(rig.submit(requests.back()));
  }
  std::vector<bool> ended;
  while (rig.step()) {
    EXPECT_GE(sinks[0]->num_outputs, sinks[1]->num_outputs);
    EXPECT_GE(sinks[1]->num_outputs, sinks[2]->num_outputs);
  }
  EXPECT_GT(rig.core->scheduler().counts().preemptions, 0);
  for (std::size_t i = 0; i < 3; ++i) expect_as_reference(requests[i], *sinks[i], 40);
  // The first one has never waited; the last one's time is work, queue and the rest.
  EXPECT_EQ(sinks[0]->times.preempted(), 0);
  EXPECT_GT(sinks[2]->times.preempted(), 0);
  for (const auto& sink : sinks) {
    const RequestTimes& times = sink->times;
    EXPECT_EQ(times.queue() + times.prefill() + times.decode() + times.preempted(),
              times.last_token - times.arrival);
  }
}

Options small_pool_with_swap(std::int32_t num_swap_blocks) {
  Options options;
  options.num_blocks = 10;  // 40 slots
  options.num_swap_blocks = num_swap_blocks;
  options.engine.enable_prefix_caching = false;
  options.engine.max_model_len = 40;
  options.engine.preemption_mode = PreemptionMode::swap;
  return options;
}

TEST(EngineCore, SwappedOutNothingIsComputedTwiceAndNobodyNewComesIn) {
  Rig rig(small_pool_with_swap(10));
  std::vector<Request> requests;
  std::vector<std::shared_ptr<Collector>> sinks;
  for (std::uint64_t i = 1; i <= 4; ++i) {
    requests.push_back(make_request(i, {static_cast<TokenId>(i), 2, 3, 4}, 20));
    if (i <= 3) sinks.push_back(rig.submit(requests.back()));
  }
  while (rig.core->scheduler().counts().swapped_groups == 0) ASSERT_TRUE(rig.step());
  sinks.push_back(rig.submit(requests[3]));
  while (!rig.core->idle()) {
    const bool swapped = rig.core->scheduler().counts().swapped_groups > 0;
    const std::int64_t before = sinks[3]->num_outputs;
    ASSERT_TRUE(rig.step());
    if (swapped && rig.core->scheduler().counts().swapped_groups > 0)
      EXPECT_EQ(sinks[3]->num_outputs, before);
  }
  for (std::size_t i = 0; i < 4; ++i) expect_as_reference(requests[i], *sinks[i], 40);
  const SchedulerCounts counts = rig.core->scheduler().counts();
  EXPECT_GT(counts.preemptions, 0);
  EXPECT_EQ(counts.preemptions_by_swap, counts.preemptions);
  EXPECT_EQ(counts.blocks_swapped_in, counts.blocks_swapped_out);
  EXPECT_EQ(rig.runner->num_computed_tokens, 4 * (4 + 19));
  const std::string text = rig.metrics.expose("pagoda", "model_name=\"m\"");
  EXPECT_NE(
      text.find(concat("pagoda:swapped_out_blocks_total{model_name=\"m\"} ", counts.blocks_swapped_out)),
      std::string::npos)
      << text;
}

TEST(EngineCore, AFullSwapSpaceMeansRecomputation) {
  Rig rig(small_pool_with_swap(1));
  std::vector<Request> requests;
  std::vector<std::shared_ptr<Collector>> sinks;
  for (std::uint64_t i = 1; i <= 3; ++i) {
    requests.push_back(make_request(i, {static_cast<TokenId>(i), 2, 3, 4}, 20));
    sinks.push_back(rig.submit(requests.back()));
  }
  rig.run_all();
  EXPECT_GT(rig.core->scheduler().counts().preemptions, rig.core->scheduler().counts().preemptions_by_swap);
  for (std::size_t i = 0; i < 3; ++i) expect_as_reference(requests[i], *sinks[i], 40);
}

TEST(EngineCore, AGangIsSwappedWholeAndSharesAgain) {
  Rig rig(small_pool_with_swap(10));
  const Request first = make_request(1, {1, 2, 3, 4}, 30);
  Request gang = make_request(2, {5, 6, 7, 8, 5, 6}, 10);
  gang.sampling.n = gang.sampling.best_of = 3;
  gang.sampling.temperature = 1;
  gang.sampling.seed = 7;
  const auto a = rig.submit(first), b = rig.submit(gang);
  while (rig.core->scheduler().counts().swapped_groups == 0) ASSERT_TRUE(rig.step());
  EXPECT_LT(rig.core->kv().swap().num_free_swap_blocks(), 10);
  while (rig.core->scheduler().counts().swapped_groups > 0) ASSERT_TRUE(rig.step());
  const KvUsage usage = rig.core->kv().inspection().usage();
  if (!b->finished) EXPECT_LT(usage.blocks_in_use, usage.blocks_without_sharing);
  rig.run_all();
  EXPECT_EQ(rig.runner->num_computed_tokens, 4 + 29 + 6 + 3 * 9);
  expect_as_reference(first, *a, 40);
  expect_as_reference(gang, *b, 40);
}

TEST(EngineCore, AbortedWhileSwappedTheSwapBlocksAreFreeAgain) {
  Rig rig(small_pool_with_swap(10));
  std::vector<std::shared_ptr<Collector>> sinks;
  for (std::uint64_t i = 1; i <= 3; ++i) sinks.push_back(rig.submit(make_request(i, {1, 2, 3, 4}, 20)));
  while (rig.core->scheduler().counts().swapped_groups == 0) ASSERT_TRUE(rig.step());
  EXPECT_LT(rig.core->kv().swap().num_free_swap_blocks(), 10);
  rig.core->abort(RequestId{3});
  rig.core->check_invariants();
  EXPECT_EQ(rig.core->kv().swap().num_free_swap_blocks(), 10);
  EXPECT_TRUE(sinks[2]->finished);
  rig.run_all();
}

TEST(EngineCore, PriorityGoesBeforeArrival) {
  Options options;
  options.engine.max_num_seqs = 1;
  options.engine.scheduling_policy = SchedulingPolicy::priority;
  Rig rig(options);
  Request late = make_request(2, {2}, 3);
  late.priority = -1;
  const auto a = rig.submit(make_request(1, {1}, 3));
  const auto b = rig.submit(late);
  for (int i = 0; i < 3; ++i) rig.step();
  EXPECT_TRUE(b->finished);
  EXPECT_FALSE(a->finished);
  rig.run_all();
}

TEST(EngineCore, APrefixHitIsCountedAndChangesNothing) {
  Rig rig({});
  const Request first = make_request(1, std::vector<TokenId>(20, 6), 4),
                second = make_request(2, std::vector<TokenId>(20, 6), 4);
  const auto a = rig.submit(first);
  rig.run_all();
  const auto b = rig.submit(second);
  rig.run_all();
  EXPECT_EQ(a->num_cached_tokens, 0);
  EXPECT_EQ(b->num_cached_tokens, 16);
  EXPECT_EQ(a->choices[0].tokens, b->choices[0].tokens);
  const std::string text = rig.metrics.expose("pagoda", "model_name=\"m\"");
  EXPECT_NE(text.find("pagoda:prefix_cache_hits_total{model_name=\"m\"} 16\n"), std::string::npos) << text;
  EXPECT_NE(text.find("pagoda:prefix_cache_queries_total{model_name=\"m\"} 40\n"), std::string::npos);
  EXPECT_NE(text.find("pagoda:kv_cache_usage_perc{model_name=\"m\"} 0\n"), std::string::npos);
  EXPECT_NE(text.find("pagoda:generation_tokens_total{model_name=\"m\"} 8\n"), std::string::npos);
  EXPECT_NE(text.find("pagoda:request_success_total{model_name=\"m\",finished_reason=\"length\"} 2\n"),
            std::string::npos);
}

TEST(EngineCore, WhatCanNeverFitIsRefusedNamingTheLimit) {
  Options options;
  options.num_blocks = 4;  // 16 slots
  Rig rig(options);
  const auto refused = [&](Request request, std::string_view param, std::string_view text) {
    const Status status = rig.core->submit(std::move(request), std::make_shared<Collector>());
    EXPECT_EQ(status.code(), StatusCode::invalid_argument);
    EXPECT_EQ(status.param(), param) << status.message();
    EXPECT_NE(status.message().find(text), std::string::npos) << status.message();
  };
  refused(make_request(1, {}, 4), "prompt", "empty");
  refused(make_request(1, std::vector<TokenId>(64, 1), 4), "prompt", "maximum context length is 64");
  refused(make_request(1, std::vector<TokenId>(10, 1), 40), "max_tokens", "KV cache holds 16");
  refused(make_request(1, {1, fake::kVocabulary}, 4), "prompt", "vocabulary");
  Request beams = make_request(1, std::vector<TokenId>(4, 1), 8);
  beams.sampling.use_beam_search = true;
  beams.sampling.n = 3;
  refused(beams, "max_tokens", "3 beams of 12 tokens may need 7 KV blocks");
  Request many = make_request(1, {1}, 4);
  many.sampling.n = 9;
  refused(many, "n", "max_num_seqs is 8");
  EXPECT_TRUE(rig.core->idle());
}

TEST(EngineCore, AbortFreesBlocksAndAnswersOnce) {
  Rig rig({});
  Request request = make_request(1, {1, 2, 3, 4, 5}, 30);
  request.sampling.n = request.sampling.best_of = 3;
  request.sampling.temperature = 1;
  request.sampling.seed = 3;
  const auto sink = rig.submit(request);
  for (int i = 0; i < 4; ++i) rig.step();
  rig.core->abort_sequence(RequestId{1}, 1);
  EXPECT_EQ(sink->choices[1].reason, FinishReason::abort);
  EXPECT_FALSE(sink->finished);
  rig.step();
  rig.core->abort(RequestId{1});
  rig.core->abort(RequestId{1});
  EXPECT_TRUE(sink->finished);
  EXPECT_EQ(rig.core->kv().num_free_blocks(), 64);
  expect_as_reference(request, *sink, 64);
}

TEST(EngineCore, ALostDeviceEndsEveryRequestWithAnError) {
  Rig rig({});
  rig.runner->fail_at_step = 3;
  const auto a = rig.submit(make_request(1, {1}, 20)), b = rig.submit(make_request(2, {2}, 20));
  while (rig.core->step()) {
  }
  rig.core->fail_all(rig.core->status());
  for (const auto& sink : {a, b}) {
    EXPECT_TRUE(sink->finished);
    EXPECT_EQ(sink->error.code(), StatusCode::internal);
    EXPECT_EQ(sink->choices[0].reason, FinishReason::error);
  }
  EXPECT_TRUE(rig.core->idle());
  EXPECT_FALSE(rig.core->status().ok());
  EXPECT_FALSE(rig.core->submit(make_request(3, {1}, 2), std::make_shared<Collector>()).ok());
}

// Goal: whatever arrives, is aborted, runs out of blocks or shares prefixes, every request ends exactly
// once with the tokens it would get alone, and nothing leaks. Method: everything drawn from one seed;
// the fake model's tokens depend on the K/V it finds.
struct SeedTotals {
  std::int64_t requests = 0, refused = 0, preemptions = 0, swaps = 0, virtuals = 0, baselines = 0,
               cached_tokens = 0, parallel = 0, beams = 0, beams_preempted = 0, prefixes = 0, steps = 0;
};

void make_beam_search(SamplingParams& sampling, std::mt19937_64& rng) {
  const auto below = [&](std::size_t n) { return static_cast<std::int32_t>(rng() % n); };
  sampling.use_beam_search = true;
  sampling.temperature = 0;
  sampling.max_tokens = std::max(1, sampling.max_tokens);
  sampling.n = 1 + below(4);
  sampling.best_of = sampling.n + below(2);
  if (below(3) == 0) sampling.beam_width = sampling.n + below(3);
  sampling.length_penalty = std::array{1.0f, 0.0f, 2.0f, -1.0f}[static_cast<std::size_t>(below(4))];
  sampling.early_stopping = static_cast<EarlyStopping>(below(3));
  if (sampling.width() % 2 == 0 && below(2) == 0) {
    sampling.num_beam_groups = 2;
    sampling.diversity_penalty = 1.5f;
  }
}

void run_seed(std::uint64_t seed, SeedTotals& totals) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 rng(seed);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(rng() % n); };
  const auto between = [&](std::int32_t low, std::int32_t high) {
    return low + static_cast<std::int32_t>(below(static_cast<std::size_t>(high - low + 1)));
  };
  Options options;
  EngineConfig& config = options.engine;
  config.block_size = between(1, 6);
  config.max_model_len = between(8, 40);
  config.max_num_seqs = between(1, 10);
  config.enable_chunked_prefill = below(4) != 0;
  config.max_num_batched_tokens =
      config.enable_chunked_prefill ? between(1, 40) : config.max_model_len + between(0, 20);
  config.enable_prefix_caching = below(3) != 0;
  config.scheduling_policy = static_cast<SchedulingPolicy>(below(3));
  options.num_blocks = config.max_model_len / config.block_size + between(1, 12);
  options.num_swap_blocks = below(4) == 0 ? 0 : between(1, options.num_blocks);
  config.preemption_mode = below(2) == 0 ? PreemptionMode::swap
                                         : static_cast<PreemptionMode>(below(std::size(kPreemptionPolicies)));
  config.preemption_costs = {.per_block_copied = 1, .per_token_recomputed = static_cast<double>(below(8))};
  if (below(3) == 0) {
    options.mode = below(2) == 0 ? fake::Mode::orca : fake::Mode::fastertransformer;
    options.reservation = static_cast<Reservation>(below(3));
    config.scheduling_policy = SchedulingPolicy::fcfs;
    options.num_blocks *= between(1, 3);  // whole regions for whole gangs
    ++totals.baselines;
  } else if (below(2) == 0) {
    options.virtual_kv = true;
    options.slots = {.num_slots = config.max_num_seqs + between(0, 8),
                     .max_regions = below(3) == 0 ? 2 * options.num_blocks + between(1, 60) : 0,
                     .deferred_reclaim = below(3) != 0,
                     .map_ahead = below(3) != 0,
                     .num_eager_blocks = between(0, 2)};
    ++totals.virtuals;
  }
  Rig rig(options);

  std::vector<Request> requests;
  std::vector<std::shared_ptr<Collector>> sinks;
  std::set<std::size_t> aborted;
  std::vector<std::shared_ptr<Collector>> prefix_sinks;
  const std::size_t num_requests = 4 + below(9);
  const std::int64_t step_bound = 4000;
  std::int64_t steps = 0;
  while (requests.size() < num_requests || !rig.core->idle()) {
    ASSERT_LT(++steps, step_bound) << "no progress";
    while (requests.size() < num_requests && below(3) == 0) {
      std::vector<TokenId> prompt;
      const std::size_t shared = below(16);
      for (std::size_t i = 0; i < shared; ++i) prompt.push_back(static_cast<TokenId>(10 + i));
      for (std::size_t i = below(8) + (shared == 0 ? 1 : 0); i > 0; --i)
        prompt.push_back(static_cast<TokenId>(1 + below(3)));
      Request request = make_request(requests.size() + 1, std::move(prompt), between(0, 20));
      SamplingParams& sampling = request.sampling;
      sampling.ignore_eos = below(4) == 0;
      sampling.temperature = below(3) == 0 ? 0.0f : 1.0f;
      sampling.seed = rng();
      if (below(3) == 0) {
        sampling.n = between(1, 5);
        sampling.best_of = sampling.n + (below(3) == 0 ? between(0, 3) : 0);
      }
      if (below(4) == 0) make_beam_search(sampling, rng);
      if (!sampling.use_beam_search && below(4) == 0)
        sampling.min_tokens = std::min(sampling.max_tokens, between(0, 5));
      if (below(4) == 0) sampling.stop_token_ids = {static_cast<TokenId>(below(fake::kVocabulary))};
      if (below(4) == 0) sampling.prompt_logprobs = 0;
      if (below(3) == 0) sampling.logprobs = 0;
      request.priority = between(-1, 1);
      request.tenant = request.priority == 0 ? "few" : "many";
      request.cache_salt = below(4) == 0 ? "salt" : "";
      request.adapter = fake::adapter(std::max(0, between(-2, 2)));
      auto sink = std::make_shared<Collector>();
      const Status status = rig.core->submit(request, sink);
      ++totals.requests;
      if (!status.ok()) {
        ASSERT_EQ(status.code(), StatusCode::invalid_argument);
        ASSERT_EQ(sink->num_outputs, 0);
        ++totals.refused;
        sink = nullptr;
      } else if (sampling.use_beam_search) {
        ++totals.beams;
      } else if (sampling.best_of > 1) {
        ++totals.parallel;
      }
      requests.push_back(std::move(request));
      sinks.push_back(std::move(sink));
    }
    if (below(10) == 0) {  // prefixes like the prompts' beginnings come and go
      const std::string name = concat("p", below(3));
      std::vector<TokenId> tokens;
      for (std::size_t i = 1 + below(12); i > 0; --i)
        tokens.push_back(static_cast<TokenId>(10 + tokens.size()));
      if (below(3) == 0) {
        (void)rig.core->prefixes().drop(name);
      } else {
        auto sink = std::make_shared<Collector>();
        if (rig.core->prefixes().add(name, std::move(tokens), sink).ok()) prefix_sinks.push_back(sink);
      }
      rig.core->check_invariants();
    }
    if (!requests.empty() && below(20) == 0) {
      const std::size_t i = below(requests.size());
      if (below(2) == 0) {
        rig.core->abort(requests[i].id);
      } else {
        rig.core->abort_sequence(requests[i].id, static_cast<std::int32_t>(below(4)));
      }
      aborted.insert(i);
      rig.core->check_invariants();
    }
    rig.step();
    for (const SequenceGroup* group : rig.core->scheduler().preempted())
      totals.beams_preempted += group->lockstep && group->sequences.size() > 1 ? 1 : 0;
  }
  totals.steps += steps;
  const SchedulerCounts counts = rig.core->scheduler().counts();
  totals.preemptions += counts.preemptions;
  totals.swaps += counts.preemptions_by_swap;
  for (const auto& sink : prefix_sinks) {
    ASSERT_TRUE(sink->finished);
    totals.prefixes += sink->error.ok() ? 1 : 0;
  }
  for (const PrefixInfo& prefix : rig.core->prefixes().list())
    ASSERT_TRUE(rig.core->prefixes().drop(prefix.name).ok());
  ASSERT_EQ(rig.core->kv().num_free_blocks(), options.num_blocks);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (sinks[i] == nullptr) continue;
    ASSERT_TRUE(sinks[i]->finished);
    ASSERT_TRUE(sinks[i]->error.ok());
    totals.cached_tokens += sinks[i]->num_cached_tokens;
    if (aborted.contains(i)) {
      // Choices that an abort came before are not told; those of best_of are ranked by what they reached.
      const SamplingParams& sampling = requests[i].sampling;
      if (sampling.use_beam_search || sampling.best_of > sampling.n ||
          static_cast<std::int32_t>(sinks[i]->choices.size()) < sampling.n)
        continue;
      if (sinks[i]->prompt_logprobs.empty()) requests[i].sampling.prompt_logprobs.reset();
    }
    expect_as_reference(requests[i], *sinks[i], config.max_model_len);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(EngineCoreProperty, EveryRequestGetsItsOwnTokensWhateverElseHappens) {
  SeedTotals totals;
  const char* only = std::getenv("PAGODA_SEED");
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    if (only != nullptr) seed = std::strtoull(only, nullptr, 10);
    run_seed(seed, totals);
    if (HasFatalFailure() || only != nullptr) break;
  }
  std::printf(
      "%lld requests (%lld refused, %lld parallel, %lld beams), %lld steps, %lld preemptions (%lld by swap, "
      "%lld of beams), %lld cached tokens\n",
      static_cast<long long>(totals.requests), static_cast<long long>(totals.refused),
      static_cast<long long>(totals.parallel), static_cast<long long>(totals.beams),
      static_cast<long long>(totals.steps), static_cast<long long>(totals.preemptions),
      static_cast<long long>(totals.swaps), static_cast<long long>(totals.beams_preempted),
      static_cast<long long>(totals.cached_tokens));
  if (only != nullptr) return;
  EXPECT_GT(totals.preemptions, 500);
  EXPECT_GT(totals.swaps, 200);
  EXPECT_GT(totals.baselines, 200);
  EXPECT_GT(totals.virtuals, 200);
  EXPECT_GT(totals.cached_tokens, 1000);
  EXPECT_GT(totals.parallel, 500);
  EXPECT_GT(totals.beams, 500);
  EXPECT_GT(totals.prefixes, 500);
  EXPECT_GT(totals.beams_preempted, 50);
}

}  // namespace
}  // namespace pagoda
