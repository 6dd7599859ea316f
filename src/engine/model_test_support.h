#pragma once
// For tests: runs a small model through the whole engine, in one of the supported configurations, and
// collects the bit-exact results of every request. Requests are the same in every trial: greedy, seeded,
// three samples, beams.
#include <gtest/gtest.h>

#include <bit>

#include "base/random.h"
#include "engine/engine_test_support.h"
#include "model_runner/host_tier.h"
#include "model_runner/local_model_runner.h"
#include "model_runner/test_ranks.h"
#include "model_runner/virtual_kv_plan.h"

namespace pagoda::trials {

constexpr std::int32_t kMaxTokens = 48;  // length of the longest sequence

struct Trial {
  std::string model, kv_cache_dtype = "auto";  // a folder or file
  bool windows = true, chunked = false, all_at_once = false;
  const struct Outcome* drafts_of = nullptr;  // drafts follow these answers, with some wrong ones
  std::int32_t block_size = 16, threads = 2, rounds = 1;
  std::int64_t num_pages = 2000, num_swap = 0;
  std::int64_t offload_pages = 0;  // above 0: rows evicted from the pool go to a host tier of this many pages
  // Above 0: num_pages (and num_swap, if nonzero) are set to the need of this many sequences of maximum
  // length.
  std::int64_t longest = 0;
  std::size_t num_requests = 14;
  std::optional<KvTensors> virtual_kv = {};
  // Virtual cache; 0: the bytes of block_size tokens; otherwise determines block_size.
  std::int64_t page_bytes = 0;
  // Multiple ranks run as threads of this process.
  std::int32_t ranks = 1;
  bool async = false;  // steps are planned while the previous one runs
};

struct Outcome {
  std::vector<std::map<std::int32_t, std::pair<std::vector<TokenId>, std::vector<std::uint32_t>>>> answers;
  std::int64_t preemptions = 0, swaps = 0, cached = 0, drafts = 0, wrong_drafts = 0, most_in_use = 0;
  bool has_states = false;         // the model has recurrent layers
  std::int64_t planned_ahead = 0;  // steps
  std::int64_t brought = 0;        // tokens fetched from the offloaded pages
  Status refused;                  // the model cannot be served in this configuration
};

inline std::vector<Request> requests(std::int32_t vocab_size, std::size_t count) {
  std::vector<Request> out;
  for (std::uint64_t i = 0; i < count; ++i) {
    std::vector<TokenId> prompt;
    for (std::uint64_t at = 0; at < 6 + i * 7 % 27; ++at)
      prompt.push_back(
          static_cast<TokenId>(random_bits(i % 5, 1, at) % static_cast<std::uint64_t>(vocab_size)));
    Request request = fake::make_request(i + 1, std::move(prompt), 14);
    request.sampling.logprobs = 1;
    request.sampling.seed = i;
    request.sampling.temperature = i % 3 == 1 ? 0.8f : 0;
    if (i % 7 == 2) {
      request.sampling.n = request.sampling.best_of = request.sampling.beam_width = 3;
      request.sampling.use_beam_search = true;
    } else if (i % 7 == 4) {
      request.sampling.n = request.sampling.best_of = 3;
    }
    if (i % 7 == 3) request.sampling.repetition_penalty = 1.3f;
    if (i % 7 == 5) request.sampling.min_tokens = 3;
    if (i % 7 == 6) request.sampling.bad_words = {{1, 2}};
    out.push_back(std::move(request));
  }
  return out;
}

// Reserves address space for 40 sequences. Front blocks are unmapped early.
inline std::unique_ptr<KvManager> make_virtual(LocalModelRunner& runner, const Trial& setup,
                                               PagedKvConfig pages) {
  SlotMapConfig slots{.num_slots = 40, .num_eager_blocks = 1, .front_batch = 4};
  auto plan = plan_virtual_kv(runner.kv_page_layout(), setup.page_bytes, *setup.virtual_kv);
  EXPECT_TRUE(plan.has_value() && plan->layout.block_size == setup.block_size);
  pages.groups = in_blocks_of(runner.kv_plan(), plan->layout)->groups;
  for (const KvGroup& group : token_groups(*pages.groups))
    slots.blocks_per_slot += static_cast<std::int32_t>(group.rows_for(kMaxTokens)) * group.pages_per_row;
  const RankKv memory = virtual_kv_of_rank(runner.kv_page_layout(), setup.block_size,
                                           {.num_slots = slots.num_slots,
                                            .blocks_per_slot = std::max(1, slots.blocks_per_slot),
                                            .page_bytes = plan->page_bytes,
                                            .num_tensors = plan->num_tensors});
  const Status status =
      runner.allocate_virtual_kv(memory.layout, memory.shape, setup.num_pages, setup.num_swap);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(*pages.groups, runner.kv_plan().groups);
  return std::make_unique<VirtualKvManager>(
      VirtualKvConfig{.pages = pages, .slots = slots, .may_create = {}, .most_resident_free = 3});
}

class RememberedDrafts final : public SequenceProposer {
 public:
  RememberedDrafts(const Outcome& from, std::int32_t vocab_size, Outcome& out)
      : from_(from), vocab_size_(vocab_size), out_(out) {}

  void propose(const SequenceGroup& group, Sequence& sequence, std::int32_t limit, std::int32_t) override {
    const auto& answers = from_.answers.at(static_cast<std::size_t>(group.request.id) - 1);
    const auto answer = answers.find(sequence.index);
    if (answer == answers.end()) return;
    const auto begin = static_cast<std::size_t>(sequence.num_output_tokens());
    for (std::size_t at = begin; at < answer->second.first.size() && limit > 0 && at < begin + 4;
         ++at, --limit) {
      const bool lie = random_bits(1, ++calls_, 0) % 4 == 0;
      sequence.draft.push_back((answer->second.first[at] + (lie ? 1 : 0)) % vocab_size_);
    }
  }
  void verified(Sequence&, std::int32_t tried, std::int32_t accepted) override {
    out_.drafts += accepted;
    out_.wrong_drafts += tried > accepted;
  }

 private:
  const Outcome& from_;
  std::int32_t vocab_size_;
  std::uint64_t calls_ = 0;
  Outcome& out_;
};

struct StepsAhead final : StepObserver {
  void on_step(const StepReport& report) override { count += report.next_planned ? 1 : 0; }
  std::int64_t count = 0;
};

inline Outcome run(Trial setup) {
  Outcome out;
  RunnerOptions options;
  options.dtype = "float32";
  options.kv_cache_dtype = setup.kv_cache_dtype;
  options.block_size = setup.block_size;
  options.threads = setup.threads;
  options.kv_windows = setup.windows;
  options.max_context = kMaxTokens;
  std::optional<testing::TestRanks> ranks;  // outlives the engine
  std::unique_ptr<ModelRunner> runner;
  const RankRunner* local = nullptr;
  LocalModelRunner* alone = nullptr;
  // Sets the page counts to the need of `longest` sequences of maximum length.
  const auto fit_longest = [&] {
    if (setup.longest == 0) return false;
    std::int64_t pages = 0;
    for (const KvGroup& group : local->kv_plan().groups)
      pages += setup.longest * group.rows_for(kMaxTokens) * group.pages_per_row;
    setup.num_swap = setup.num_swap > 0 ? pages : 0;
    setup.num_pages = pages;
    return true;
  };
  if (setup.ranks > 1) {
    options.num_blocks = setup.num_pages;
    ranks.emplace(setup.model, options, setup.ranks);
    out.refused = ranks->status;
    if (!out.refused.ok()) return out;
    local = &ranks->runner->local();
    if (fit_longest()) out.refused = ranks->runner->allocate_kv_cache(setup.num_pages, setup.num_swap);
    EXPECT_TRUE(out.refused.ok()) << out.refused.message();
    runner = std::move(ranks->runner);
  } else {
    auto source = ModelSource::open(setup.model);
    EXPECT_TRUE(source.has_value()) << source.error().message();
    auto created = LocalModelRunner::create(std::shared_ptr<const ModelSource>(*std::move(source)), options);
    out.refused = created ? ok_status() : created.error();
    if (!created) return out;
    alone = created->get();
    local = alone;
    runner = *std::move(created);
    fit_longest();
    if (!setup.virtual_kv) EXPECT_TRUE(alone->allocate_kv_cache(setup.num_pages, setup.num_swap).ok());
  }
  out.has_states = local->kv_plan().has_states();
  if (setup.page_bytes > 0)
    setup.block_size =
        plan_virtual_kv(local->kv_page_layout(), setup.page_bytes, *setup.virtual_kv)->layout.block_size;
  const auto offload = [&] {
    std::vector<std::shared_ptr<KvTier>> tiers;
    tiers.push_back(*HostTier::create(setup.offload_pages, alone->kv_block_bytes()));
    EXPECT_TRUE(alone->set_tiers(std::move(tiers)).ok());
  };
  EngineConfig config{.max_model_len = kMaxTokens,
                      .max_num_seqs = 32,
                      .max_num_batched_tokens = setup.chunked ? 8 : 512,
                      .block_size = setup.block_size,
                      .log_stats = false};
  config.vocab_size = local->config().vocab_size;
  config.rotation = local->rotation_rule();
  config.async_scheduling = setup.async;
  if (setup.async) runner = std::make_unique<AsyncModelRunner>(std::move(runner));
  if (setup.num_swap > 0) config.preemption_mode = PreemptionMode::swap;
  if (setup.drafts_of != nullptr)
    config.speculative = {.num_speculative_tokens = 4, .prompt_lookup_max = 2, .prompt_lookup_min = 1};
  const PagedKvConfig pages{.block_size = setup.block_size,
                            .num_blocks = static_cast<std::int32_t>(setup.num_pages),
                            .num_swap_blocks = static_cast<std::int32_t>(setup.num_swap),
                            .tiers = setup.offload_pages > 0,
                            .verify_hits = true,
                            .groups = local->kv_plan().groups};
  std::unique_ptr<KvManager> kv;
  if (setup.virtual_kv)
    kv = make_virtual(*alone, setup, pages);
  else
    kv = std::make_unique<PagedKvManager>(pages);
  if (setup.offload_pages > 0) offload();
  auto scheduler = std::make_unique<VllmScheduler>(config.scheduler_config(), *kv);
  fake::ManualClock clock;
  MetricsRegistry metrics;
  const VllmScheduler& who = *scheduler;
  EngineCore core(config, EngineParts{std::move(kv), std::move(scheduler), std::move(runner)}, clock,
                  metrics);
  StepsAhead ahead;
  core.add_observer(ahead);
  if (setup.drafts_of != nullptr)
    core.steps().drafts().set_proposer(
        std::make_unique<RememberedDrafts>(*setup.drafts_of, config.vocab_size, out));
  for (int round = 0; round < setup.rounds; ++round) {
    std::vector<std::shared_ptr<fake::Collector>> sinks;
    const auto run_all = [&] {
      // The tier's threads may still be working.
      while (core.step() || !core.idle()) {
        core.check_invariants();
        out.most_in_use = std::max(out.most_in_use, core.kv().inspection().usage().blocks_in_use);
      }
      EXPECT_TRUE(core.status().ok()) << core.status().message();
    };
    for (Request& request : requests(config.vocab_size, setup.num_requests)) {
      sinks.push_back(std::make_shared<fake::Collector>());
      const Status status = core.submit(std::move(request), sinks.back());
      EXPECT_TRUE(status.ok()) << status.message();
      if (!setup.all_at_once) run_all();
    }
    run_all();
    out.answers.clear();
    for (const auto& sink : sinks) {
      EXPECT_TRUE(sink->finished && sink->error.ok());
      auto& answer = out.answers.emplace_back();
      for (const auto& [index, choice] : sink->choices) {
        answer[index].first = choice.tokens;
        for (const float logprob : choice.logprobs)
          answer[index].second.push_back(std::bit_cast<std::uint32_t>(logprob));
      }
      out.cached += sink->num_cached_tokens;
    }
  }
  out.planned_ahead = ahead.count;
  out.brought = core.kv().inspection().prefix_cache_stats().external_hits;
  out.preemptions = who.counts().preemptions;
  out.swaps = who.counts().preemptions_by_swap;
  return out;
}

}  // namespace pagoda::trials
