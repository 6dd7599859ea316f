// Goal: layers with windows give the same bits whether what is behind the window is kept or given back:
// alone, among others, in chunks, from the prefix cache, after recomputation and swapping, with beams and
// drafts; and under the virtual manager. Method: small models on the real runner, through the whole engine,
// with KV groups and without.
#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <filesystem>
#include <map>

#include "base/random.h"
#include "engine/engine_test_support.h"
#include "model_runner/family_model.h"
#include "model_runner/local_model_runner.h"
#include "model_runner/virtual_kv_plan.h"

namespace pagoda {
namespace {

using fake::Collector;

struct Trial {
  std::string model, kv_cache_dtype = "auto";
  bool windows = true, chunked = false, drafts = false, all_at_once = false;
  std::int32_t block_size = 16, threads = 2, rounds = 1;
  std::int64_t num_pages = 2000, num_swap = 0;
  std::optional<KvTensors> virtual_kv = {};
};

struct Result {
  std::vector<std::map<std::int32_t, std::pair<std::vector<TokenId>, std::vector<std::uint32_t>>>> answers;
  std::int64_t preemptions = 0, swaps = 0, cached = 0, drafts = 0, most_in_use = 0;
};

// A model that is committed, or one of the families, which are written anew.
std::string folder_of(const std::string& model) {
  const std::string committed = PAGODA_SOURCE_DIR "/tests/fixtures/tiny_models/" + model;
  if (std::filesystem::exists(committed)) return committed;
  static std::map<std::string, std::string> written;
  std::string& folder = written[model];
  if (folder.empty())
    folder = testing::write_family(
        model, ::testing::TempDir() + "kv_groups_" + model + "_" + std::to_string(::getpid()));
  return folder;
}

std::vector<Request> requests(std::int32_t vocab_size) {
  std::vector<Request> out;
  for (std::uint64_t i = 0; i < 14; ++i) {
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
    out.push_back(std::move(request));
  }
  return out;
}

// In pages of the block size's bytes, and address space for 40 sequences. Fronts are unmapped early.
std::unique_ptr<KvManager> make_virtual(LocalModelRunner& runner, const Trial& setup,
                                        const PagedKvConfig& pages) {
  SlotMapConfig slots{.num_slots = 40, .num_eager_blocks = 1, .front_batch = 4};
  for (const KvGroup& group : *pages.groups)
    slots.blocks_per_slot += static_cast<std::int32_t>(group.rows_for(48)) * group.pages_per_row;
  auto plan = plan_virtual_kv(runner.kv_page_layout(), 0, *setup.virtual_kv);
  EXPECT_TRUE(plan.has_value() && plan->layout.block_size == setup.block_size);
  const RankKv memory = virtual_kv_of_rank(runner.kv_page_layout(), setup.block_size,
                                           {.num_slots = slots.num_slots,
                                            .blocks_per_slot = slots.blocks_per_slot,
                                            .page_bytes = plan->page_bytes,
                                            .num_tensors = plan->num_tensors});
  const Status status =
      runner.allocate_virtual_kv(memory.layout, memory.shape, setup.num_pages, setup.num_swap);
  EXPECT_TRUE(status.ok()) << status.message();
  return std::make_unique<VirtualKvManager>(
      VirtualKvConfig{.pages = pages, .slots = slots, .may_create = {}, .most_resident_free = 3});
}

Result run(const Trial& setup) {
  Result out;
  auto source = ModelSource::open(folder_of(setup.model));
  EXPECT_TRUE(source.has_value());
  RunnerOptions options;
  options.dtype = "float32";
  options.kv_cache_dtype = setup.kv_cache_dtype;
  options.block_size = setup.block_size;
  options.threads = setup.threads;
  options.num_blocks = setup.num_pages;
  options.num_swap_blocks = setup.num_swap;
  options.kv_windows = setup.windows;
  options.max_context = 48;
  auto runner = LocalModelRunner::create(std::shared_ptr<const ModelSource>(*std::move(source)), options);
  EXPECT_TRUE(runner.has_value()) << runner.error().message();
  EngineConfig config{.max_model_len = 48,
                      .max_num_seqs = 32,
                      .max_num_batched_tokens = setup.chunked ? 8 : 512,
                      .block_size = setup.block_size,
                      .log_stats = false};
  config.vocab_size = (*runner)->config().vocab_size;
  if (setup.num_swap > 0) config.preemption_mode = PreemptionMode::swap;
  if (setup.drafts)
    config.speculative = {.num_speculative_tokens = 4, .prompt_lookup_max = 2, .prompt_lookup_min = 1};
  const PagedKvConfig pages{.block_size = setup.block_size,
                            .num_blocks = static_cast<std::int32_t>(setup.num_pages),
                            .num_swap_blocks = static_cast<std::int32_t>(setup.num_swap),
                            .verify_hits = true,
                            .groups = (*runner)->kv_plan().groups};
  std::unique_ptr<KvManager> kv = std::make_unique<PagedKvManager>(pages);
  if (setup.virtual_kv) kv = make_virtual(**runner, setup, pages);
  auto scheduler = std::make_unique<VllmScheduler>(config.scheduler_config(), *kv);
  fake::ManualClock clock;
  MetricsRegistry metrics;
  const VllmScheduler& who = *scheduler;
  EngineCore core(config, EngineParts{std::move(kv), std::move(scheduler), *std::move(runner)}, clock,
                  metrics);
  for (int round = 0; round < setup.rounds; ++round) {
    std::vector<std::shared_ptr<Collector>> sinks;
    const auto run_all = [&] {
      while (core.step()) {
        core.check_invariants();
        out.most_in_use = std::max(out.most_in_use, core.kv().usage().blocks_in_use);
      }
      EXPECT_TRUE(core.status().ok()) << core.status().message();
    };
    for (Request& request : requests(config.vocab_size)) {
      sinks.push_back(std::make_shared<Collector>());
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
  out.preemptions = who.counts().preemptions;
  out.swaps = who.counts().preemptions_by_swap;
  return out;
}

class Windows : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(Windows, GiveTheSameBitsWhenTheyGiveRowsBack) {
  Trial setup;
  setup.model = std::get<0>(GetParam());
  setup.kv_cache_dtype = std::get<1>(GetParam());
  setup.windows = false;
  const Result kept = run(setup);
  setup.windows = true;
  const auto expect_same = [&](const Result& got, const char* what) {
    ASSERT_EQ(got.answers.size(), kept.answers.size());
    for (std::size_t i = 0; i < kept.answers.size(); ++i)
      EXPECT_TRUE(got.answers[i] == kept.answers[i]) << what << ": request " << i << " differs";
  };
  expect_same(run(setup), "alone");
  Trial small = setup;
  small.block_size = 4;
  expect_same(run(small), "rows of 4 tokens");
  Trial together = setup;
  together.all_at_once = true;
  expect_same(run(together), "all at once");
  together.chunked = true;
  together.threads = 1;
  expect_same(run(together), "in chunks");
  Trial again = small;
  again.rounds = 2;
  const Result cached = run(again);
  EXPECT_GT(cached.cached, 0);
  expect_same(cached, "from the prefix cache");
  Trial drafting = small;
  drafting.drafts = true;
  drafting.all_at_once = true;
  expect_same(run(drafting), "with drafts");

  // The longest alone, and a little more.
  Trial tight = small;
  tight.all_at_once = true;
  const std::int64_t wide = setup.model == "mistral" ? 24 : setup.model == "gemma4" ? 105 : 90;
  tight.num_pages = wide;
  const Result recomputed = run(tight);
  EXPECT_GT(recomputed.preemptions, 0);
  EXPECT_LE(recomputed.most_in_use, wide);
  expect_same(recomputed, "recomputed");
  tight.num_swap = wide;
  const Result swapped = run(tight);
  EXPECT_GT(swapped.swaps, 0);
  expect_same(swapped, "swapped");

  for (const KvTensors tensors : {KvTensors::per_slot, KvTensors::per_layer}) {
    const auto with = [&](Trial trial) {
      trial.virtual_kv = tensors;
      return run(trial);
    };
    expect_same(with(setup), "virtual, alone");
    expect_same(with(together), "virtual, in chunks");
    const Result found = with(again);
    EXPECT_EQ(found.cached, cached.cached);
    expect_same(found, "virtual, from the prefix cache");
    expect_same(with(drafting), "virtual, with drafts");
    const Result back = with(tight);
    EXPECT_GT(back.swaps, 0);
    EXPECT_LE(back.most_in_use, wide);
    expect_same(back, "virtual, swapped");
  }
}

INSTANTIATE_TEST_SUITE_P(KvGroups, Windows,
                         ::testing::Combine(::testing::Values("gemma3", "gemma4", "gemma4_shared", "mistral"),
                                            ::testing::Values("float32", "bfloat16", "int8")));

TEST(KvGroupPlan, FindsThePagesOfGemma) {
  const auto layers = [](int number, int period) {
    std::vector<LayerState> out;
    for (int i = 1; i <= number; ++i)
      out.push_back(
          i % period == 0
              ? LayerState{.num_kv_heads = 1, .head_size = 256}
              : LayerState{
                    .kind = LayerState::Kind::window, .window = 512, .num_kv_heads = 1, .head_size = 256});
    return out;
  };
  const auto pages = [](const KvGroupPlan& plan) {
    std::vector<std::int32_t> out;
    for (const KvGroup& group : plan.groups) out.push_back(group.pages_per_row);
    return out;
  };
  const KvGroupPlan small = plan_kv_groups(layers(18, 6), 16, 32768, true);  // 270M
  EXPECT_EQ(pages(small), (std::vector<std::int32_t>{1, 5}));
  EXPECT_EQ(small.page_layers, 3);
  EXPECT_EQ(small.padding, 0);
  EXPECT_EQ(small.layers[5].group, 0);
  EXPECT_EQ(small.layers[6].group, 1);
  EXPECT_EQ(small.layers[6].page, 1);
  EXPECT_EQ(small.layers[6].layer, 2);
  EXPECT_EQ(pages(plan_kv_groups(layers(26, 6), 16, 32768, true)), (std::vector<std::int32_t>{2, 11}));  // 1B
  EXPECT_EQ(pages(plan_kv_groups(layers(62, 6), 16, 32768, true)),
            (std::vector<std::int32_t>{5, 26}));  // 27B
  EXPECT_EQ(pages(plan_kv_groups(layers(24, 2), 16, 32768, true)), (std::vector<std::int32_t>{1, 1}));
  // Gemma 4: layers that see everything have heads of another size, or fewer; E2B's last 20 keep nothing.
  const auto gemma4 = [](int number, int period, int own, LayerState full, LayerState window) {
    std::vector<LayerState> out;
    window.kind = LayerState::Kind::window, window.window = 512;
    for (int i = 1; i <= number; ++i) {
      out.push_back(i % period == 0 ? full : window);
      for (int before = own; i > own && before >= 1 && out.back().of_layer < 0; --before)
        if ((before % period == 0) == (i % period == 0)) out.back().of_layer = before - 1;
    }
    return out;
  };
  const LayerState one = {.num_kv_heads = 1, .head_size = 256}, wide = {.num_kv_heads = 1, .head_size = 512};
  const KvGroupPlan e2b = plan_kv_groups(gemma4(35, 5, 15, wide, one), 16, 32768, true);
  EXPECT_EQ(pages(e2b), (std::vector<std::int32_t>{1, 2}));
  EXPECT_EQ(e2b.padding, 0);
  EXPECT_FALSE(e2b.uniform);
  EXPECT_EQ(e2b.layers[34].page, e2b.layers[14].page);
  EXPECT_EQ(e2b.layers[34].layer, 2);
  EXPECT_FALSE(e2b.layers[34].own);
  EXPECT_EQ(pages(plan_kv_groups(gemma4(60, 6, 60, {.num_kv_heads = 4, .head_size = 512},
                                        {.num_kv_heads = 16, .head_size = 256}),
                                 16, 32768, true)),
            (std::vector<std::int32_t>{1, 10}));  // 31B
  const KvGroupPlan a4b = plan_kv_groups(
      gemma4(30, 6, 30, {.num_kv_heads = 2, .head_size = 512}, {.num_kv_heads = 8, .head_size = 256}), 16,
      32768, true);
  EXPECT_LT(a4b.padding, 0.02);
  EXPECT_EQ(plan_kv_groups(gemma4(35, 5, 15, wide, one), 16, 512, true).padding, 0)
      << "one group of both sizes";
  EXPECT_EQ(plan_kv_groups(layers(18, 6), 16, 512, true).groups, one_full_group(16))
      << "never behind a window";
  EXPECT_EQ(plan_kv_groups(layers(18, 6), 16, 32768, false).groups, one_full_group(16));
  EXPECT_EQ(describe_groups(small),
            "3 layers see everything (1 pages a row), 15 layers see the last 512 tokens (5 pages a row)");
}

}  // namespace
}  // namespace pagoda
