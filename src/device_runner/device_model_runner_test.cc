// Goal: the device runner computes what the models' goldens say, in float32 to 1e-3 of a log-probability, on
// an emulated device (or a GPU: device/test_device.h); a sequence's tokens do not depend on its batch, on
// chunks, on copies and swaps of its blocks, or on the order of the device's streams; what it cannot do it
// refuses by name; and a device that fails ends a step with an error.
#include "device_runner/device_model_runner.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/random.h"
#include "device/test_device.h"
#include "device_runner/test_seeds.h"
#include "model_runner/expect_golden.h"

namespace pagoda::device_runner {
namespace {

using device::emulated::EmulatedOptions;
using namespace pagoda::testing;

Result<std::unique_ptr<DeviceModelRunner>> create(const std::string& path, const EmulatedOptions& device = {},
                                                  RunnerOptions options = {},
                                                  const DeviceKernels& kernels = {}) {
  if (options.dtype == "auto") options.dtype = "float32";
  options.num_blocks = 60;
  options.num_swap_blocks = 8;
  options.max_context = 512;
  options.max_num_seqs = 8;
  auto source = ModelSource::open(path);
  if (!source) return source.error();
  auto made = device::open_test_device(device);
  if (!made) return made.error();
  return DeviceModelRunner::create(std::shared_ptr<const ModelSource>(*std::move(source)), options,
                                   *std::move(made), kernels);
}

std::unique_ptr<DeviceModelRunner> open_runner(const std::string& path, const EmulatedOptions& device = {},
                                               const RunnerOptions& options = {},
                                               const DeviceKernels& kernels = {}) {
  auto runner = create(path, device, options, kernels);
  if (!runner) {
    ADD_FAILURE() << runner.error().message();
    return nullptr;
  }
  return *std::move(runner);
}

class Golden : public ::testing::TestWithParam<const char*> {};

TEST_P(Golden, AgreesWithNumpy) {
  const std::string folder = fixture(GetParam());
  int formats = 0;
  for (const std::string file : {"/config.json", "/model.gguf"}) {
    if (!std::filesystem::exists(folder + file)) continue;
    ++formats;
    SCOPED_TRACE(file);
    const auto runner = open_runner(file == "/config.json" ? folder : folder + file, {.seed = 7});
    ASSERT_NE(runner, nullptr);
    for (const boost::json::object& line : read_json_lines(folder + "/golden.jsonl"))
      expect_golden(*runner, 16, line);
  }
  EXPECT_GT(formats, 0);
}
INSTANTIATE_TEST_SUITE_P(Models, Golden,
                         ::testing::Values("llama", "mistral", "qwen2", "qwen3", "phi3", "smollm3", "gemma3",
                                           "gpt2", "granite", "olmo2", "opt", "mixtral", "qwen2_moe",
                                           "qwen3_moe", "llama_gguf_f16", "llama_gguf_quantized"),
                         [](const auto& info) { return std::string(info.param); });

TEST(DeviceModelRunner, RefusesTypesItHasNot) {
  const auto int8 = create(fixture("llama"), {}, {.dtype = "int8"});
  ASSERT_FALSE(int8);
  EXPECT_NE(int8.error().message().find("--dtype int8"), std::string::npos);
  const auto half = create(fixture("llama"), {}, {.kv_cache_dtype = "float16"});
  ASSERT_FALSE(half);
  EXPECT_NE(half.error().message().find("--kv-cache-dtype float16"), std::string::npos);
}

std::vector<TokenId> prompt_of(std::uint64_t seed, std::size_t length) {
  std::vector<TokenId> tokens;
  for (std::size_t i = 0; i < length; ++i)
    tokens.push_back(static_cast<TokenId>(3 + random_bits(seed, 1, i) % 60));
  return tokens;
}

TestSequence sampled(std::uint64_t seed, std::size_t length) {
  TestSequence sequence = greedy(prompt_of(seed, length));
  sequence.params.temperature = seed % 3 == 0 ? 0.0f : 0.9f;
  sequence.params.top_p = seed % 2 == 0 ? 0.9f : 1.0f;
  sequence.params.logprobs.reset();
  sequence.params.presence_penalty = seed % 4 == 1 ? 0.5f : 0;
  sequence.seed = seed;
  return sequence;
}

// By eager steps: all others are replayed.
std::vector<TokenId> alone(std::uint64_t seed, std::size_t length, std::size_t count) {
  const auto runner = open_runner(fixture("qwen3"), {}, {}, {.graphs = GraphUse::off});
  Driver driver(*runner, 16);
  TestSequence sequence = sampled(seed, length);
  EXPECT_TRUE(driver.generate({&sequence}, count).ok());
  return sequence.tokens;
}

TEST(DeviceModelRunner, TokensDependOnTheSequenceAlone) {
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    const auto runner = open_runner(fixture("qwen3"), {.seed = seed});
    Driver driver(*runner, 16);
    std::vector<TestSequence> sequences;
    for (std::uint64_t i = 0; i < 4; ++i) sequences.push_back(sampled(i, 5 + 9 * i));
    std::vector<TestSequence*> all;
    for (TestSequence& sequence : sequences) all.push_back(&sequence);
    const Status status = driver.generate(all, 5, seed == 0 ? 1 << 20 : 11);
    ASSERT_TRUE(status.ok()) << status.message();
    for (std::uint64_t i = 0; i < 4; ++i) EXPECT_EQ(sequences[i].tokens, alone(i, 5 + 9 * i, 5)) << i;
  }
}

const RunnerOptions kBf16 = {.dtype = "bfloat16"};

// Five drawn tokens and their log-probabilities, alone or beside others, at once or in chunks.
std::vector<Candidate> drawn(const RunnerOptions& options, const DeviceKernels& kernels, std::size_t others,
                             std::int32_t chunk, const char* model = "qwen3") {
  const auto runner = open_runner(fixture(model), {.seed = others}, options, kernels);
  Driver driver(*runner, 16);
  std::vector<TestSequence> sequences;
  for (std::uint64_t i = 0; i <= others; ++i) sequences.push_back(greedy(prompt_of(40 + i, 41 - 7 * i)));
  std::vector<TestSequence*> all;
  for (TestSequence& sequence : sequences) all.push_back(&sequence);
  const Status status = driver.generate(all, 5, chunk);
  EXPECT_TRUE(status.ok()) << status.message();
  return sequences[0].sampled;
}

// Attention by tiles: for decode (splits), for prompts (tiles of rows), and for what is left of a chunk.
TEST(DeviceModelRunner, TilesGiveTheSameBitsAloneInABatchAndInChunks) {
  const std::vector<Candidate> wanted = drawn(kBf16, {.attention = AttentionKernels::tiles}, 0, 1 << 20);
  ASSERT_EQ(wanted.size(), 5u);
  for (const std::int32_t chunk : {1 << 20, 19, 7})
    EXPECT_EQ(largest_difference(wanted, drawn(kBf16, {}, 3, chunk)), 0) << chunk;
  // The plain kernels round less: other bits, and little else.
  const float rounding =
      largest_difference(wanted, drawn(kBf16, {.attention = AttentionKernels::plain}, 0, 1 << 20));
  EXPECT_GT(rounding, 0);
  EXPECT_LT(rounding, 0.05);
}

// Keys and values in 8 bits: integers with scales of their own, and floats.
TEST(DeviceModelRunner, A8BitCacheGivesTheSameBitsAloneInABatchAndInChunks) {
  for (const char* const type : {"int8", "fp8"}) {
    SCOPED_TRACE(type);
    const RunnerOptions options = {.dtype = "float32", .kv_cache_dtype = type};
    const std::vector<Candidate> wanted = drawn(options, {}, 0, 1 << 20);
    ASSERT_EQ(wanted.size(), 5u);
    for (const std::int32_t chunk : {1 << 20, 19, 7})
      EXPECT_EQ(largest_difference(wanted, drawn(options, {}, 3, chunk)), 0) << chunk;
    const RunnerOptions whole = {.dtype = "float32"};
    const float rounding = largest_difference(wanted, drawn(whole, {}, 0, 1 << 20));
    EXPECT_GT(rounding, 0);
    EXPECT_LT(rounding, 0.2);
  }
}

// Products by tiles: for few rows, and for the many of a prompt and a batch.
TEST(DeviceModelRunner, ProductsByTilesGiveTheSameBitsAloneInABatchAndInChunks) {
  for (const char* const model : {"qwen3", "qwen2_moe"}) {
    const auto wanted = drawn(kBf16, {.products = MatrixProducts::tiles}, 0, 1 << 20, model);
    ASSERT_EQ(wanted.size(), 5u);
    for (const std::int32_t chunk : {1 << 20, 19, 3})
      EXPECT_EQ(largest_difference(wanted, drawn(kBf16, {}, 3, chunk, model)), 0) << model << " " << chunk;
    // The plain kernel does not round its inputs.
    const DeviceKernels plain = {.products = MatrixProducts::plain};
    const auto other = drawn(kBf16, plain, 0, 1 << 20, model);
    EXPECT_GT(largest_difference(wanted, other), 0);
    EXPECT_LT(largest_difference(wanted, other), 0.05);
    EXPECT_EQ(largest_difference(other, drawn(kBf16, plain, 3, 19, model)), 0) << model;
  }
}

TEST(DeviceModelRunner, TilesAreRefusedWhereTheyDoNotFit) {
  const auto products = create(fixture("qwen3"), {}, {}, {.products = MatrixProducts::tiles});
  ASSERT_FALSE(products);
  EXPECT_NE(products.error().message().find("--device-products tiles needs --dtype bfloat16"),
            std::string::npos);
  const auto f32 = create(fixture("qwen3"), {}, {}, {.attention = AttentionKernels::tiles});
  ASSERT_FALSE(f32);
  EXPECT_NE(f32.error().message().find("--device-attention tiles needs keys and values in bfloat16"),
            std::string::npos);
}

// A decode step's launches but for sampling's: those of each layer, and the embedding, the last norm and the
// head. Every one of them costs microseconds that nothing hides.
TEST(DeviceModelRunner, ALayerHasFewLaunches) {
  struct Case {
    const char* model;
    std::int64_t attention, feed_forward, more;
  };
  // Attention: norm, product, heads with the write, splits, product. Feed-forward: norm, product,
  // function, product; of experts with the router, the choice and the sum, and a shared expert with its
  // router. gemma3 has norms and sums behind both.
  for (const Case& wanted :
       {Case{"qwen3", 5, 4, 3}, Case{"llama", 5, 4, 3}, Case{"gpt2", 5, 4, 5}, Case{"gemma3", 7, 6, 4},
        Case{"mixtral", 5, 7, 3}, Case{"qwen2_moe", 5, 12, 3}}) {
    SCOPED_TRACE(wanted.model);
    RunnerOptions options = {.dtype = "float32", .max_context = 512, .max_num_seqs = 8, .num_blocks = 60};
    auto source = ModelSource::open(fixture(wanted.model));
    ASSERT_TRUE(source);
    auto made = device::open_test_device({});
    ASSERT_TRUE(made);
    device::Device& device = **made;
    auto runner = DeviceModelRunner::create(std::shared_ptr<const ModelSource>(*std::move(source)), options,
                                            *std::move(made), {.graphs = GraphUse::off});
    ASSERT_TRUE(runner) << runner.error().message();
    Driver driver(**runner, 16);
    TestSequence sequence = sampled(0, 20);
    ASSERT_TRUE(driver.generate({&sequence}, 1).ok());
    ASSERT_TRUE(device.start_profile().ok());
    ASSERT_TRUE(driver.generate({&sequence}, 2).ok());
    const auto profile = device.end_profile();
    ASSERT_TRUE(profile);
    std::int64_t launches = 0;
    for (const device::KernelTime& line : *profile) {
      const std::string_view kernel = line.kernel;
      if (kernel != "best_of_groups" && kernel != "sample_rows") launches += line.launches;
    }
    const std::int64_t layers = (*runner)->config().num_layers();
    EXPECT_EQ(launches, layers * (wanted.attention + wanted.feed_forward) + wanted.more);
  }
}

// The device's library multiplies what is rounded to bfloat16: in another order of sums, and little else.
TEST(DeviceModelRunner, ProductsByTheLibrary) {
  const auto first = create(fixture("qwen2"), {}, kBf16, {.products = MatrixProducts::library});
  if (!first && first.error().code() == StatusCode::unavailable) GTEST_SKIP() << first.error().message();
  std::vector<std::vector<Candidate>> got;
  for (const MatrixProducts products : {MatrixProducts::plain, MatrixProducts::library}) {
    for (const char* const model : {"qwen2", "qwen2_moe"}) {  // with biases; with experts and a shared one
      const auto runner = open_runner(fixture(model), {}, kBf16, {.products = products});
      ASSERT_NE(runner, nullptr);
      Driver driver(*runner, 16);
      TestSequence sequence = greedy(prompt_of(50, 20));
      const Status status = driver.generate({&sequence}, 1);
      ASSERT_TRUE(status.ok()) << status.message();
      got.push_back(sequence.sampled);
    }
  }
  for (std::size_t model = 0; model < 2; ++model) {
    EXPECT_GT(largest_difference(got[model], got[2 + model]), 0);
    EXPECT_LT(largest_difference(got[model], got[2 + model]), 0.05);
  }
  const auto f32 = create(fixture("qwen2"), {}, {}, {.products = MatrixProducts::library});
  ASSERT_FALSE(f32);
  EXPECT_NE(f32.error().message().find("--device-products cublaslt needs --dtype bfloat16"),
            std::string::npos);
}

// The host's runner, with the same seeds: borders between tokens are too narrow for the difference to show.
TEST(DeviceModelRunner, SampledTokensAreTheHosts) {
  RunnerOptions options;
  options.dtype = "float32";
  options.num_blocks = 60;
  auto source = ModelSource::open(fixture("qwen3"));
  ASSERT_TRUE(source);
  auto host = LocalModelRunner::create(std::shared_ptr<const ModelSource>(*std::move(source)), options);
  ASSERT_TRUE(host) << host.error().message();
  Driver driver(**host);
  for (std::uint64_t i = 0; i < 8; ++i) {
    TestSequence sequence = sampled(i, 12 + i);
    ASSERT_TRUE(driver.generate({&sequence}, 12).ok());
    EXPECT_EQ(sequence.tokens, alone(i, 12 + i, 12)) << i;
  }
}

// Blocks that go to the swap space and come back elsewhere, and blocks that are copied, give the same tokens.
TEST(DeviceModelRunner, TokensSurviveSwapsAndCopies) {
  const std::vector<TokenId> wanted = alone(2, 40, 6);
  for (std::uint64_t seed = 0; seed < num_seeds(); ++seed) {
    SCOPED_TRACE(seed);
    const auto runner = open_runner(fixture("qwen3"), {.seed = seed});
    Driver driver(*runner, 16);
    TestSequence sequence = sampled(2, 40);
    ASSERT_TRUE(driver.generate({&sequence}, 2).ok());
    ScheduledBatch moves;
    for (std::size_t i = 0; i < sequence.blocks.size(); ++i) {
      const auto swap = static_cast<SwapBlockId>(i);
      const BlockId back{static_cast<std::int32_t>(20 + 2 * i)}, copy{static_cast<std::int32_t>(21 + 2 * i)},
          last{static_cast<std::int32_t>(40 + i)};
      moves.swap_out.push_back({sequence.blocks[i], swap});
      moves.swap_in.push_back({back, swap});
      moves.block_copies.push_back({back, copy});
      moves.block_copies.push_back({copy, last});  // a chain
      sequence.blocks[i] = last;
    }
    ASSERT_TRUE(runner->run(moves).status.ok());
    ASSERT_TRUE(driver.generate({&sequence}, 6).ok());
    EXPECT_EQ(sequence.tokens, wanted);
  }
}

TEST(DeviceModelRunner, DraftsAndSeveralCandidates) {
  const auto runner = open_runner(fixture("llama"));
  const std::vector<TokenId> tokens = prompt_of(9, 20);
  const std::vector<BlockId> blocks = {BlockId{3}, BlockId{1}};
  SamplingParams params;
  params.temperature = 1.3f;
  ScheduledSequence sequence;
  sequence.tokens = sequence.all_tokens = tokens;
  sequence.num_prompt_tokens = 17;
  sequence.block_table = blocks;
  sequence.sample = true;
  sequence.spec = {.params = &params, .seed = 4, .first_stream = 2, .num_candidates = 3};
  ScheduledBatch batch;
  batch.sequences = {sequence};
  const StepResult several = runner->run(batch);
  ASSERT_TRUE(several.status.ok()) << several.status.message();
  ASSERT_EQ(several.sequences[0].candidates.size(), 3u);
  for (std::uint32_t i = 0; i < 3; ++i) {
    batch.sequences[0].spec.first_stream = 2 + i;
    batch.sequences[0].spec.num_candidates = 1;
    EXPECT_EQ(runner->run(batch).sequences[0].candidates[0].token, several.sequences[0].candidates[i].token);
  }
  // Drafts: what is drawn after each of them is what is drawn when they are known.
  params.temperature = 0;
  batch.sequences[0].num_draft_tokens = 3;
  const StepResult drafts = runner->run(batch);
  ASSERT_EQ(drafts.sequences[0].after_drafts.size(), 3u);
  for (std::size_t known = 17; known <= 20; ++known) {
    ScheduledBatch one = batch;
    one.sequences[0].num_draft_tokens = 0;
    one.sequences[0].tokens = std::span(tokens).first(known);
    one.sequences[0].all_tokens = one.sequences[0].tokens;
    const SequenceResult& got =
        known == 17 ? drafts.sequences[0] : drafts.sequences[0].after_drafts[known - 18];
    EXPECT_EQ(runner->run(one).sequences[0].candidates[0].token, got.candidates[0].token) << known;
  }
}

// Asleep it has next to none of the device's memory; awake it computes the same, also over rows that were
// kept.
TEST(DeviceModelRunner, SleepsAndWakes) {
  const std::vector<TokenId> wanted = alone(2, 40, 6);
  using Content = ModelRunner::KvContent;
  for (const Content content : {Content::keep, Content::drop}) {
    RunnerOptions options;
    EXPECT_EQ(open_runner(fixture("qwen3"))->release_memory(content).code(), StatusCode::unimplemented);
    options.reopen = []() -> Result<std::shared_ptr<const ModelSource>> {
      auto source = ModelSource::open(fixture("qwen3"));
      if (!source) return source.error();
      return std::shared_ptr<const ModelSource>(*std::move(source));
    };
    const auto runner = open_runner(fixture("qwen3"), {}, options);
    Driver driver(*runner, 16);
    TestSequence sequence = sampled(2, 40);
    if (content == Content::keep) ASSERT_TRUE(driver.generate({&sequence}, 3).ok());
    const std::int64_t free = runner->device_free_bytes();
    const MemoryPlan plan = runner->memory_plan();
    // A GPU's driver gives memory back in parts of 2 MiB, which small arrays share.
    const std::int64_t parts = std::getenv("PAGODA_TEST_DEVICE") == nullptr ? 0 : 4 << 20;
    for (int again = 0; again < 2; ++again) {
      ASSERT_TRUE(runner->release_memory(content).ok());
      EXPECT_GE(runner->device_free_bytes() + parts, free + plan.weight_bytes + plan.activation_bytes +
                                                         (content == Content::drop ? plan.kv_bytes : 0));
      TestSequence other = sampled(1, 10);
      const Status asleep = Driver(*runner, 16).step({&other}, 100);
      EXPECT_NE(asleep.message().find("the weights have been released"), std::string::npos);
    }
    for (int again = 0; again < 2; ++again) {
      ASSERT_TRUE(runner->load_weights().ok());
      EXPECT_LE(std::abs(runner->device_free_bytes() - free), parts);
    }
    ASSERT_TRUE(driver.generate({&sequence}, 6).ok());
    EXPECT_EQ(sequence.tokens, wanted);
    // Graphs name memory that was given back: they are captured again.
    EXPECT_EQ(runner->graph_stats().captured, content == Content::keep ? 2 : 1);
  }
}

TEST(DeviceModelRunner, AFailingDeviceIsAnError) {
  // Every allocation, by turns, is refused.
  int refused = 0;
  for (std::int64_t n = 1;; ++n) {
    const auto runner = create(fixture("llama"), {.refused_allocation = n});
    if (runner) break;
    ++refused;
    ASSERT_EQ(runner.error().code(), StatusCode::resource_exhausted) << runner.error().message();
  }
  EXPECT_GT(refused, 20);
  // And launches lose it, the first ones of which ask the device for its bits.
  int started = 0;
  for (std::int64_t n = 1; n < 60; n += 3) {
    const auto runner = create(fixture("llama"), {.lost_launch = n});
    if (!runner) {
      EXPECT_NE(runner.error().message().find("the emulated device is lost"), std::string::npos) << n;
      continue;
    }
    ++started;
    Driver driver(**runner, 16);
    TestSequence sequence = sampled(1, 10);
    const Status status = driver.generate({&sequence}, 3);
    EXPECT_NE(status.message().find("the emulated device is lost"), std::string::npos) << n;
    EXPECT_FALSE(driver.step({&sequence}, 1).ok());
  }
  EXPECT_GT(started, 5);
}

TEST(DeviceModelRunner, ABatchThatBreaksARuleIsAnError) {
  const auto runner = open_runner(fixture("llama"));
  const std::vector<TokenId> tokens = {5, 6, 7};
  const std::vector<BlockId> blocks = {BlockId{0}}, far = {BlockId{60}};
  const std::vector<TokenId> wrong = {5, 1 << 20};
  ScheduledSequence right;
  right.tokens = right.all_tokens = tokens;
  right.block_table = blocks;
  const auto refuse = [&](const auto& change) {
    ScheduledBatch batch;
    batch.sequences = {right};
    change(batch);
    EXPECT_EQ(runner->run(batch).status.code(), StatusCode::internal);
  };
  refuse([&](ScheduledBatch& b) { b.sequences[0].tokens = {}; });
  refuse([&](ScheduledBatch& b) { b.sequences[0].tokens = wrong; });
  refuse([&](ScheduledBatch& b) { b.sequences[0].block_table = {}; });
  refuse([&](ScheduledBatch& b) { b.sequences[0].block_table = far; });
  refuse([&](ScheduledBatch& b) { b.sequences[0].num_computed_tokens = 15; });
  refuse([&](ScheduledBatch& b) { b.sequences[0].num_computed_tokens = 100000; });
  refuse([&](ScheduledBatch& b) { b.sequences[0].sample = true; });
  refuse([&](ScheduledBatch& b) { b.sequences[0].work = WorkKind::embed; });
  refuse([&](ScheduledBatch& b) { b.block_copies = {{BlockId{0}, BlockId{60}}}; });
  refuse([&](ScheduledBatch& b) { b.swap_out = {{BlockId{0}, static_cast<SwapBlockId>(8)}}; });
  refuse([&](ScheduledBatch& b) { b.page_maps.emplace_back(); });
  ScheduledBatch batch;
  batch.sequences = {right};
  EXPECT_TRUE(runner->run(batch).status.ok());
}

}  // namespace
}  // namespace pagoda::device_runner
