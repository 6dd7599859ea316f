#pragma once
// For tests: an engine core on the fake model, and a sink that checks the form of the outputs.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "base/strings.h"
#include "engine/engine_core.h"
#include "engine/fake_model_runner.h"
#include "kv_cache/paged_kv_manager.h"
#include "kv_cache/virtual_kv_manager.h"
#include "model_runner/async_model_runner.h"
#include "scheduler/fastertransformer_scheduler.h"
#include "scheduler/vllm_scheduler.h"

namespace pagoda::fake {

class ManualClock final : public Clock {
 public:
  TimeNs now() const override { return time; }
  TimeNs time = 1;
};

// Collects a request's outputs and checks their form.
class Collector final : public OutputSink {
 public:
  struct Choice {
    std::vector<TokenId> tokens;
    std::vector<float> logprobs;
    double cumulative_logprob = 0;
    std::optional<FinishReason> reason;
  };
  void on_output(RequestOutput output) override {
    EXPECT_FALSE(finished) << "output after the last one";
    for (const SequenceDelta& delta : output.deltas) {
      Choice& choice = choices[delta.index];
      EXPECT_FALSE(choice.reason.has_value()) << "tokens after the end of choice " << delta.index;
      choice.tokens.insert(choice.tokens.end(), delta.token_ids.begin(), delta.token_ids.end());
      if (!delta.vector.empty()) vector = delta.vector;
      for (const TokenLogprobs& entry : delta.logprobs) choice.logprobs.push_back(entry.chosen.logprob);
      choice.cumulative_logprob = delta.cumulative_logprob;
      choice.reason = delta.finish_reason;
    }
    if (!output.prompt_logprobs.empty()) {
      EXPECT_TRUE(prompt_logprobs.empty()) << "prompt log-probabilities reported twice";
      prompt_logprobs = output.prompt_logprobs;
    }
    num_cached_tokens = output.num_cached_tokens;
    times = output.times;
    for (const TimeNs part : {times.queue(), times.prefill(), times.decode(), times.preempted()})
      EXPECT_GE(part, 0);
    EXPECT_LE(times.accepted_tokens, times.draft_tokens);
    finished = output.finished;
    error = output.error;
    ++num_outputs;
  }
  std::map<std::int32_t, Choice> choices;
  std::vector<std::optional<TokenLogprobs>> prompt_logprobs;
  std::vector<float> vector;
  std::int32_t num_cached_tokens = 0;
  RequestTimes times;
  std::int64_t num_outputs = 0;
  bool finished = false;
  Status error;
};

enum class Mode { vllm, orca, fastertransformer };

struct Options {
  EngineConfig engine{.max_model_len = 64,
                      .max_num_seqs = 8,
                      .max_num_batched_tokens = 64,
                      .block_size = 4,
                      .vocab_size = fake::kVocabulary,
                      .log_stats = false};
  std::int32_t num_blocks = 64;
  std::int32_t num_swap_blocks = 0;
  std::optional<std::vector<KvGroup>> groups = std::nullopt;  // absent: one full-attention group
  Mode mode = Mode::vllm;
  Reservation reservation = Reservation::oracle;
  // Mode vllm: use the virtual manager (virtual_kv_test.cc runs other tests this way); slot counts of 0 are
  // filled in.
  bool virtual_kv = std::getenv("PAGODA_TEST_VIRTUAL_KV") != nullptr;
  SlotMapConfig slots = {};
  // Virtual manager: number of pages created initially, with no more ever granted. 0: all exist.
  std::int32_t num_created = 0;
  // Mode vllm: rows of the prefix cache are stored in tiers, which may lose them.
  std::optional<TierFaults> tiers = std::nullopt;

  SlotMapConfig slot_config() const {
    SlotMapConfig out = slots;
    if (out.num_slots == 0) out.num_slots = engine.max_num_seqs + 3;
    if (out.num_slots < engine.max_num_seqs) out.num_slots = engine.max_num_seqs;
    out.blocks_per_slot = 0;
    const std::vector<KvGroup> all = groups.value_or(one_full_group(engine.block_size));
    for (const KvGroup& group : token_groups(all))
      out.blocks_per_slot +=
          static_cast<std::int32_t>(group.rows_for(engine.max_model_len)) * group.pages_per_row;
    return out;
  }
  std::int64_t virtual_blocks() const {
    return virtual_kv && mode == Mode::vllm
               ? std::int64_t{slot_config().num_slots} * slot_config().blocks_per_slot
               : 0;
  }
};

// The scheduler borrows the KV manager.
inline EngineParts make_parts(const Options& options) {
  EngineParts parts;
  const SchedulerConfig config = options.engine.scheduler_config();
  if (options.mode == Mode::vllm) {
    const PagedKvConfig pages{.block_size = options.engine.block_size,
                              .num_blocks = options.num_blocks,
                              .num_swap_blocks = options.num_swap_blocks,
                              .enable_prefix_caching = options.engine.enable_prefix_caching,
                              .tiers = options.tiers.has_value(),
                              .peers = options.engine.kv_peers,
                              .model_id = "fake",
                              .verify_hits = true,
                              .groups = options.groups,
                              .whole_prompts = !options.engine.enable_chunked_prefill};
    if (options.virtual_kv) {
      parts.kv =
          std::make_unique<VirtualKvManager>(VirtualKvConfig{.pages = pages,
                                                             .slots = options.slot_config(),
                                                             .num_created = options.num_created,
                                                             .may_create = [](std::int64_t) { return false; },
                                                             .most_resident_free = 3});
    } else {
      parts.kv = std::make_unique<PagedKvManager>(pages);
    }
    parts.scheduler = std::make_unique<VllmScheduler>(config, *parts.kv);
    return parts;
  }
  auto kv =
      std::make_unique<ReservedKvManager>(ReservedKvConfig{.block_size = options.engine.block_size,
                                                           .num_blocks = options.num_blocks,
                                                           .max_model_len = options.engine.max_model_len,
                                                           .reservation = options.reservation});
  if (options.mode == Mode::orca)
    parts.scheduler = std::make_unique<OrcaScheduler>(config, *kv);
  else
    parts.scheduler = std::make_unique<FasterTransformerScheduler>(config, *kv);
  parts.kv = std::move(kv);
  return parts;
}

struct Rig {
  explicit Rig(const Options& options) {
    EngineParts parts = make_parts(options);
    auto owned = std::make_unique<fake::FakeModelRunner>(
        options.engine.block_size, options.num_blocks, options.num_swap_blocks, options.virtual_blocks(),
        options.groups.value_or(one_full_group(options.engine.block_size)));
    runner = owned.get();
    if (options.tiers) runner->tiers.emplace(*options.tiers);
    parts.runner = std::move(owned);
    if (options.engine.async_scheduling)
      parts.runner = std::make_unique<AsyncModelRunner>(std::move(parts.runner));
    scheduler = parts.scheduler.get();
    core = std::make_unique<EngineCore>(options.engine, std::move(parts), clock, metrics);
  }
  std::shared_ptr<Collector> submit(Request request) {
    auto sink = std::make_shared<Collector>();
    const Status status = core->submit(std::move(request), sink);
    EXPECT_TRUE(status.ok()) << status.message();
    return sink;
  }
  bool step() {
    clock.time += 1'000'000;
    const bool ran = core->step();
    core->check_invariants();
    return ran;
  }
  std::int64_t run_all() {
    std::int64_t steps = 0;
    while (step()) ++steps;
    EXPECT_TRUE(core->idle());
    return steps;
  }
  ManualClock clock;
  MetricsRegistry metrics;
  fake::FakeModelRunner* runner = nullptr;
  Scheduler* scheduler = nullptr;
  std::unique_ptr<EngineCore> core;
};

// The adapter with this number, the same object on every call; 0: none.
inline std::shared_ptr<const RequestAdapter> adapter(int number) {
  static const std::vector<std::shared_ptr<const RequestAdapter>> all = [] {
    std::vector<std::shared_ptr<const RequestAdapter>> made(1);
    for (int i = 1; i <= 3; ++i) {
      auto each = std::make_shared<RequestAdapter>();
      each->id = AdapterId{i};
      each->name = concat("adapter ", i);
      each->identity = concat("content ", i);
      made.push_back(std::move(each));
    }
    return made;
  }();
  return all.at(static_cast<std::size_t>(number));
}

inline Request make_request(std::uint64_t id, std::vector<TokenId> prompt, std::int32_t max_tokens) {
  Request request;
  request.id = RequestId{id};
  request.prompt_token_ids = std::move(prompt);
  request.sampling.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  request.sampling.eos_token_ids = {fake::kEos};
  request.sampling.ignore_eos = true;
  return request;
}

}  // namespace pagoda::fake
