// Goal: layers with windows give the same bits whether what is behind the window is kept or given back:
// alone, among others, in chunks, from the prefix cache, after recomputation and swapping, with beams and
// drafts; and under the virtual manager. Method: small models on the real runner, through the whole engine,
// with KV groups and without.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include "engine/model_test_support.h"
#include "model_runner/family_model.h"

namespace pagoda {
namespace {

using trials::Outcome;
using trials::run;
using trials::Trial;

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

class Windows : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(Windows, GiveTheSameBitsWhenTheyGiveRowsBack) {
  Trial setup;
  const std::string model = std::get<0>(GetParam());
  setup.model = folder_of(model);
  setup.kv_cache_dtype = std::get<1>(GetParam());
  setup.windows = false;
  const Outcome kept = run(setup);
  setup.windows = true;
  const auto expect_same = [&](const Outcome& got, const char* what) {
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
  const Outcome cached = run(again);
  EXPECT_GT(cached.cached, 0);
  expect_same(cached, "from the prefix cache");
  Trial drafting = small;
  drafting.drafts_of = &kept;
  drafting.all_at_once = true;
  expect_same(run(drafting), "with drafts");

  // The longest alone, and a little more.
  Trial tight = small;
  tight.all_at_once = true;
  const std::int64_t wide = model == "mistral" ? 24 : model == "gemma4" ? 105 : 90;
  tight.num_pages = wide;
  const Outcome recomputed = run(tight);
  EXPECT_GT(recomputed.preemptions, 0);
  EXPECT_LE(recomputed.most_in_use, wide);
  expect_same(recomputed, "recomputed");
  tight.num_swap = wide;
  const Outcome swapped = run(tight);
  EXPECT_GT(swapped.swaps, 0);
  expect_same(swapped, "swapped");

  for (const KvTensors tensors : {KvTensors::per_slot, KvTensors::per_layer}) {
    const auto with = [&](Trial trial) {
      trial.virtual_kv = tensors;
      return run(trial);
    };
    expect_same(with(setup), "virtual, alone");
    expect_same(with(together), "virtual, in chunks");
    const Outcome found = with(again);
    EXPECT_EQ(found.cached, cached.cached);
    expect_same(found, "virtual, from the prefix cache");
    expect_same(with(drafting), "virtual, with drafts");
    const Outcome back = with(tight);
    EXPECT_GT(back.swaps, 0);
    EXPECT_LE(back.most_in_use, wide);
    expect_same(back, "virtual, swapped");
  }
}

INSTANTIATE_TEST_SUITE_P(KvGroups, Windows,
                         ::testing::Combine(::testing::Values("gemma3", "gemma4", "gemma4_shared", "mistral"),
                                            ::testing::Values("float32", "bfloat16", "int8", "fp8")));

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
  // LFM2 350M and Qwen3.5 35B-A3B in bfloat16: states in floats, in pieces, in pages of the others' size.
  const auto with_states = [](int number, auto is_full, LayerState full, std::vector<std::int64_t> pieces) {
    std::vector<LayerState> out;
    for (int i = 0; i < number; ++i)
      out.push_back(is_full(i) ? full : LayerState{.kind = LayerState::Kind::state, .pieces = pieces});
    return plan_kv_groups(out, 16, 32768, true, 16 * 2);
  };
  const KvGroupPlan lfm2 = with_states(16, [](int i) { return i == 2 || i == 5 || (i >= 8 && i % 2 == 0); },
                                       {.num_kv_heads = 8, .head_size = 64}, {2 * 1024});
  EXPECT_EQ(pages(lfm2), (std::vector<std::int32_t>{1, 1}));
  EXPECT_LT(lfm2.padding, 0.01);
  EXPECT_EQ(lfm2.groups.back().state_bytes, 10 * 8192);
  EXPECT_EQ(describe_groups(lfm2),
            "6 layers see everything (1 page a row), states of 81920 bytes a sequence (1 page)");
  std::vector<std::int64_t> heads(32, 128 * 128);
  heads.insert(heads.begin(), 3 * 8192);
  const KvGroupPlan qwen =
      with_states(40, [](int i) { return i % 4 == 3; }, {.num_kv_heads = 2, .head_size = 256}, heads);
  std::printf("Qwen3.5 35B-A3B: %d pages a row, %d of states, %.2f %% padding\n",
              qwen.groups[0].pages_per_row, qwen.groups[1].pages_per_row, 100 * qwen.padding);
  EXPECT_LT(qwen.padding, 0.02);
  // In pages of a virtual cache: eight times the tokens, and as many bytes of states in fewer pages.
  const KvLayout page = {.dtype = DType::bf16,
                         .num_layers = 1,
                         .num_kv_heads = 1,
                         .head_size = 4096,
                         .block_size = 128};  // 2 MiB
  const auto large = in_blocks_of(qwen, page);
  ASSERT_TRUE(large.has_value());
  EXPECT_EQ(large->groups[0].tokens_per_row, 128);
  EXPECT_EQ(large->groups[0].pages_per_row, qwen.groups[0].pages_per_row);
  EXPECT_LT(large->groups[1].pages_per_row, qwen.groups[1].pages_per_row);
  for (const StatePlace& piece : large->pieces) EXPECT_LE(piece.offset + piece.bytes, 2 << 20);
  KvLayout small_page = page;
  small_page.head_size = 64;  // 32 KiB: a head's matrix is twice as large
  EXPECT_EQ(in_blocks_of(qwen, small_page).error().code(), StatusCode::invalid_argument);
  EXPECT_EQ(plan_kv_groups(gemma4(35, 5, 15, wide, one), 16, 512, true).padding, 0)
      << "one group of both sizes";
  EXPECT_EQ(plan_kv_groups(layers(18, 6), 16, 512, true).groups, one_full_group(16))
      << "never behind a window";
  EXPECT_EQ(plan_kv_groups(layers(18, 6), 16, 32768, false).groups, one_full_group(16));
  EXPECT_EQ(describe_groups(small),
            "3 layers see everything (1 page a row), 15 layers see the last 512 tokens (5 pages a row)");
}

}  // namespace
}  // namespace pagoda
