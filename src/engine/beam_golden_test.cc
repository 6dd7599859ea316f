// Goal: beam search on real models, through the whole engine, is what transformers' float32 logits give
// under vLLM's rules, and a gang that is preempted for lack of blocks gets the same bits.
// PAGODA_FULL_GOLDENS=1 runs every case of the default model too.
#include <gtest/gtest.h>

#include "engine/engine_test_support.h"
#include "model_runner/test_sequences.h"
#include "model_runner/virtual_kv_plan.h"

namespace pagoda {
namespace {

using fake::Collector;
using testing::ids_of;
using testing::shared_data;

struct BeamCase {
  Request request;
  std::vector<std::vector<TokenId>> ids;  // without the end of sequence
  std::vector<double> logprobs;
  std::vector<bool> stopped;
};

std::vector<BeamCase> read_cases(const std::string& path) {
  std::vector<BeamCase> cases;
  TokenId eos = -1;
  for (const boost::json::object& line : testing::read_json_lines(path)) {
    if (line.contains("header")) {
      eos = line.at("eos_token_id").to_number<TokenId>();
      continue;
    }
    BeamCase entry;
    entry.request = fake::make_request(cases.size() + 1, ids_of(line.at("prompt_ids")),
                                       line.at("max_tokens").to_number<std::int32_t>());
    SamplingParams& sampling = entry.request.sampling;
    sampling.use_beam_search = true;
    sampling.n = line.at("width").to_number<std::int32_t>();
    sampling.ignore_eos = line.at("ignore_eos").as_bool();
    sampling.eos_token_ids = {eos};
    for (const boost::json::value& sequence : line.at("sequences").as_array()) {
      entry.ids.push_back(ids_of(sequence.at("ids")));
      entry.logprobs.push_back(sequence.at("cum_logprob").to_number<double>());
      entry.stopped.push_back(sequence.at("finished").as_string() == "stop");
    }
    cases.push_back(std::move(entry));
  }
  return cases;
}

struct RealRig {
  RealRig(const std::string& model, std::int32_t num_blocks, std::int32_t threads = 1,
          bool prefix_caching = true, std::int32_t num_swap_blocks = 0, bool virtual_kv = false) {
    auto source = ModelSource::open(model);
    EXPECT_TRUE(source.has_value());
    RunnerOptions options;
    options.dtype = "float32";
    options.num_blocks = virtual_kv ? 0 : num_blocks;
    options.num_swap_blocks = virtual_kv ? 0 : num_swap_blocks;
    options.threads = threads;
    auto runner = LocalModelRunner::create(std::shared_ptr<const ModelSource>(*std::move(source)), options);
    EXPECT_TRUE(runner.has_value());
    EngineConfig config{.max_model_len = 512,
                        .max_num_seqs = 32,
                        .max_num_batched_tokens = 512,
                        .block_size = options.block_size,
                        .log_stats = false};
    config.vocab_size = (*runner)->config().vocab_size;
    const PagedKvConfig pages{.block_size = options.block_size,
                              .num_blocks = num_blocks,
                              .num_swap_blocks = num_swap_blocks,
                              .enable_prefix_caching = prefix_caching};
    if (num_swap_blocks > 0) config.preemption_mode = PreemptionMode::swap;
    std::unique_ptr<KvManager> kv = std::make_unique<PagedKvManager>(pages);
    if (virtual_kv) {
      const SlotMapConfig slots{.num_slots = 40,
                                .blocks_per_slot = config.max_model_len / options.block_size};
      auto plan = plan_virtual_kv((*runner)->kv_layout(), 0, KvTensors::per_slot);
      EXPECT_TRUE(plan.has_value() && plan->layout.block_size == options.block_size);
      const Status status = (*runner)->allocate_virtual_kv(plan->layout,
                                                           {.num_slots = slots.num_slots,
                                                            .blocks_per_slot = slots.blocks_per_slot,
                                                            .page_bytes = plan->page_bytes,
                                                            .num_tensors = plan->num_tensors},
                                                           num_blocks, num_swap_blocks);
      EXPECT_TRUE(status.ok()) << status.message();
      kv = std::make_unique<VirtualKvManager>(VirtualKvConfig{.pages = pages, .slots = slots});
    }
    auto scheduler = std::make_unique<VllmScheduler>(config.scheduler_config(), *kv);
    core = std::make_unique<EngineCore>(
        config, EngineParts{std::move(kv), std::move(scheduler), *std::move(runner)}, clock, metrics);
  }
  std::shared_ptr<Collector> submit(const Request& request) {
    auto sink = std::make_shared<Collector>();
    const Status status = core->submit(request, sink);
    EXPECT_TRUE(status.ok()) << status.message();
    return sink;
  }
  void run_all() {
    while (core->step()) core->check_invariants();
    ASSERT_TRUE(core->status().ok()) << core->status().message();
    ASSERT_TRUE(core->idle());
  }
  fake::ManualClock clock;
  MetricsRegistry metrics;
  std::unique_ptr<EngineCore> core;
};

void expect_case(const BeamCase& wanted, const Collector& got) {
  SCOPED_TRACE(::testing::Message() << "case " << static_cast<std::uint64_t>(wanted.request.id));
  ASSERT_EQ(got.choices.size(), wanted.ids.size());
  for (std::size_t i = 0; i < wanted.ids.size(); ++i) {
    const Collector::Choice& choice = got.choices.at(static_cast<std::int32_t>(i));
    std::vector<TokenId> ids = choice.tokens;
    EXPECT_EQ(choice.reason, wanted.stopped[i] ? FinishReason::stop : FinishReason::length);
    if (wanted.stopped[i]) ids.pop_back();
    EXPECT_EQ(ids, wanted.ids[i]) << "answer " << i;
    EXPECT_NEAR(choice.cumulative_logprob, wanted.logprobs[i], 1e-3);
  }
}

TEST(BeamGolden, StoriesAgreeWithTransformersAndPreemptionChangesNoBit) {
  const auto folder = shared_data("models/stories260K");
  if (!folder) GTEST_SKIP() << "no shared test data: set PAGODA_SHARED_DATA";
  const std::vector<BeamCase> cases = read_cases(*folder + "/golden_beam.jsonl");
  ASSERT_EQ(cases.size(), 27u);
  RealRig rig(*folder, 400);
  std::vector<std::shared_ptr<Collector>> alone;
  for (const BeamCase& entry : cases) {
    alone.push_back(rig.submit(entry.request));
    rig.run_all();
    expect_case(entry, *alone.back());
  }
  EXPECT_EQ(rig.core->scheduler().counts().preemptions, 0);

  // All of them at once, in hardly more blocks than the largest may need alone; recomputed, and swapped.
  struct Way {
    bool prefix_caching, virtual_kv;
    std::int32_t num_swap_blocks;
  };
  for (const Way& way : {Way{false, false, 0}, Way{true, false, 0}, Way{true, false, 44}, Way{false, true, 0},
                         Way{true, true, 0}, Way{true, true, 44}}) {
    RealRig tiny(*folder, 44, 1, way.prefix_caching, way.num_swap_blocks, way.virtual_kv);
    std::vector<std::shared_ptr<Collector>> crowded;
    for (const BeamCase& entry : cases) crowded.push_back(tiny.submit(entry.request));
    tiny.run_all();
    EXPECT_GT(tiny.core->scheduler().counts().preemptions, 3);
    if (way.num_swap_blocks > 0) EXPECT_GT(tiny.core->scheduler().counts().preemptions_by_swap, 3);
    for (std::size_t i = 0; i < cases.size(); ++i) {
      ASSERT_EQ(crowded[i]->choices.size(), alone[i]->choices.size());
      for (const auto& [index, choice] : alone[i]->choices) {
        EXPECT_EQ(crowded[i]->choices[index].tokens, choice.tokens);
        EXPECT_EQ(crowded[i]->choices[index].cumulative_logprob, choice.cumulative_logprob);
      }
    }
  }
}

TEST(BeamGolden, TheDefaultModelAgreesWithTransformers) {
  const auto model = testing::default_model_file();
  const auto goldens = shared_data("models/smollm2_135m_q4_1/golden_beam.jsonl");
  if (!model || !goldens) GTEST_SKIP() << "no default model (PAGODA_MODEL) or no shared test data";
  const bool full = std::getenv("PAGODA_FULL_GOLDENS") != nullptr;
  RealRig rig(*model, 200, 2);
  for (const BeamCase& entry : read_cases(*goldens)) {
    const auto& sampling = entry.request.sampling;
    if (!full && (sampling.n == 6 || sampling.ignore_eos || entry.request.prompt_token_ids.size() > 12))
      continue;
    const auto sink = rig.submit(entry.request);
    rig.run_all();
    expect_case(entry, *sink);
  }
}

}  // namespace
}  // namespace pagoda
