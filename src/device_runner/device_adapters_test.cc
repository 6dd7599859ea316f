// Goal: adapters that requests choose, on a device: each answers as PEFT does with it, its bits depend on the
// sequence alone, whoever else is in the batch, rows without one have the bits of a runner that knows none,
// and their matrices are in the device's memory for as long as somebody holds them.
#include <gtest/gtest.h>

#include <filesystem>

#include "device/emulated/emulated_device.h"
#include "device_runner/device_model_runner.h"
#include "loader/test_files.h"
#include "model_runner/expect_golden.h"
#include "model_runner/family_model.h"
#include "models/weights/adapter_set.h"

namespace pagoda::device_runner {
namespace {

using namespace pagoda::testing;

const std::string kModels = PAGODA_SOURCE_DIR "/tests/fixtures/tiny_models/",
                  kAdaptersOfPeft = PAGODA_SOURCE_DIR "/tests/fixtures/adapters/";

std::shared_ptr<AdapterSet> new_set() {
  return std::make_shared<AdapterSet>(AdapterLimits{.max_adapters = 4, .max_rank = 64});
}

std::unique_ptr<DeviceModelRunner> open_adapted(const std::string& model,
                                                std::shared_ptr<AdapterSet> adapters,
                                                const std::string& dtype, const DeviceKernels& kernels = {}) {
  auto source = ModelSource::open(model);
  if (!source) {
    ADD_FAILURE() << source.error().message();
    return nullptr;
  }
  RunnerOptions options = {.dtype = dtype};
  options.num_blocks = 80, options.max_context = 64, options.max_num_seqs = 12;
  options.max_num_batched_tokens = 128;
  options.adapters = std::move(adapters);
  auto runner = DeviceModelRunner::create(std::shared_ptr<const ModelSource>(*std::move(source)), options,
                                          *device::emulated::EmulatedDevice::create({}), kernels);
  if (!runner) ADD_FAILURE() << runner.error().message();
  return runner ? *std::move(runner) : nullptr;
}

// A model whose matrices take tiles, gated feed-forwards and a head of its own.
constexpr std::int64_t kHidden = 128, kInner = 192, kAdaptedVocabulary = 64;
struct Module {
  std::string name;
  std::int64_t rows, columns;
};
std::vector<Module> modules() {
  std::vector<Module> all = {{"lm_head", kAdaptedVocabulary, kHidden}};
  for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
    all.push_back({layer + "self_attn.q_proj", kHidden, kHidden});
    all.push_back({layer + "self_attn.k_proj", 64, kHidden});
    all.push_back({layer + "self_attn.v_proj", 64, kHidden});
    all.push_back({layer + "self_attn.o_proj", kHidden, kHidden});
    all.push_back({layer + "mlp.gate_proj", kInner, kHidden});
    all.push_back({layer + "mlp.up_proj", kInner, kHidden});
    all.push_back({layer + "mlp.down_proj", kHidden, kInner});
  }
  return all;
}

FamilyTensor tensor(const std::string& name, std::int64_t rows, std::int64_t columns, double offset,
                    double scale) {
  boost::json::array shape = {rows};
  if (columns > 0) shape.push_back(columns);
  return {name, shape, family_weights(1, name, rows * std::max<std::int64_t>(columns, 1), offset, scale)};
}

void write_model(const std::string& where) {
  std::filesystem::create_directories(where);
  std::ofstream(where + "/config.json") << R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
    "hidden_size": 128, "intermediate_size": 192, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "vocab_size": 64, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
    "tie_word_embeddings": false, "bos_token_id": 1, "eos_token_id": 2})";
  std::vector<FamilyTensor> tensors = {
      tensor("model.embed_tokens.weight", kAdaptedVocabulary, kHidden, 0, 0.2),
      tensor("model.norm.weight", kHidden, 0, 1, 0.2)};
  for (const std::string layer : {"model.layers.0.", "model.layers.1."})
    for (const char* norm : {"input_layernorm", "post_attention_layernorm"})
      tensors.push_back(tensor(layer + norm + ".weight", kHidden, 0, 1, 0.2));
  for (const Module& each : modules())
    tensors.push_back(tensor(each.name + ".weight", each.rows, each.columns, 0, 0.2));
  write_safetensors(where + "/model.safetensors", tensors);
}

// An adapter of every matrix but one in `leave_out` (0: none), of one rank (0: of ranks that differ).
std::string write_adapter(const std::string& where, const std::string& seed, std::size_t leave_out,
                          std::int64_t of_rank = 0) {
  std::filesystem::create_directories(where);
  std::ofstream(where + "/adapter_config.json") << R"({"peft_type": "LORA", "lora_alpha": 2})";
  std::vector<FamilyTensor> tensors;
  std::size_t number = 0;
  for (const Module& each : modules()) {
    const auto differing = static_cast<std::int64_t>(1 + (++number + seed.size()) % 9);
    const std::int64_t rank = of_rank > 0 ? of_rank : differing;
    if (leave_out > 0 && number % leave_out == 0) continue;
    const std::string name = "base_model.model." + each.name;
    FamilyTensor a = tensor(name + ".lora_A.weight", rank, each.columns, 0, 0.1),
                 b = tensor(name + ".lora_B.weight", each.rows, rank, 0, 0.1);
    a.values = family_weights(1, seed + a.name, rank * each.columns, 0, 0.2);
    b.values = family_weights(1, seed + b.name, each.rows * rank, 0, 0.2);
    tensors.push_back(std::move(a));
    tensors.push_back(std::move(b));
  }
  write_safetensors(where + "/adapter_model.safetensors", tensors);
  return where;
}

class PeftOnDevice : public ::testing::TestWithParam<const char*> {};

TEST_P(PeftOnDevice, AnswersAsPeftDoes) {
  const std::string folder = kAdaptersOfPeft + GetParam();
  const boost::json::object golden = read_json_lines(folder + "/golden.jsonl").front();
  const auto set = new_set();
  const auto runner = open_adapted(kModels + std::string(golden.at("model").as_string()), set, "float32");
  ASSERT_NE(runner, nullptr);
  const auto added = set->add("own", *Adapter::open(folder, 1, {}));
  ASSERT_TRUE(added) << added.error().message();
  Driver driver(*runner, 16);
  expect_golden(driver, golden, kGoldenTolerance, (*added)->id);
}

INSTANTIATE_TEST_SUITE_P(All, PeftOnDevice,
                         ::testing::Values("plain", "all_linear", "rslora", "patterns", "layers", "bfloat16",
                                           "regex", "conv1d", "tied_head"),
                         [](const auto& info) { return std::string(info.param); });

// Alone; then many together in small chunks, some of them in the same adapter, so that products of few rows
// and of many, norms and functions of their own or of a product, are taken by turns.
class DeviceAdapterBits : public ::testing::TestWithParam<std::string> {};

TEST_P(DeviceAdapterBits, DependOnTheSequenceAlone) {
  const ScratchFolder folder;
  write_model(folder.path() + "/model");
  const auto set = new_set();
  const auto runner = open_adapted(folder.path() + "/model", set, GetParam()),
             without = open_adapted(folder.path() + "/model", nullptr, GetParam());
  ASSERT_TRUE(runner != nullptr && without != nullptr);
  std::vector<std::shared_ptr<const RequestAdapter>> held = {nullptr};
  for (const std::string seed : {"a", "bb"}) {
    const std::string path = write_adapter(folder.path() + "/" + seed, seed, seed == "a" ? 0 : 3);
    const auto added = set->add(seed, *Adapter::open(path, 1, {}));
    ASSERT_TRUE(added) << added.error().message();
    held.push_back(*added);
  }
  std::vector<TestSequence> alone;
  for (TokenId i = 0; i < 9; ++i) {
    alone.push_back(greedy({3, 14 + i / 3, 15, 9, 5, 8, 30, 20, 4, 7}));
    if (i % 3 > 0) alone.back().adapter = held[static_cast<std::size_t>(i % 3)]->id;
  }
  std::vector<TestSequence> together = alone, at_once = alone;
  for (TestSequence& each : alone) {
    DeviceModelRunner& of = each.adapter == kNoAdapter ? *without : *runner;
    ASSERT_TRUE(Driver(of, 16).generate({&each}, 4).ok());
  }
  const auto all = [](std::vector<TestSequence>& sequences) {
    std::vector<TestSequence*> out;
    for (TestSequence& each : sequences) out.push_back(&each);
    return out;
  };
  ASSERT_TRUE(Driver(*runner, 16).generate(all(together), 4, 4).ok());
  ASSERT_TRUE(Driver(*runner, 16).generate(all(at_once), 4).ok());
  for (std::size_t i = 0; i < alone.size(); ++i) {
    SCOPED_TRACE(i);
    expect_same_draws(together[i], alone[i]);
    expect_same_draws(at_once[i], alone[i]);
  }
  EXPECT_NE(alone[0].sampled[0].logprob, alone[1].sampled[0].logprob);
  EXPECT_NE(alone[1].sampled[0].logprob, alone[2].sampled[0].logprob);
}

INSTANTIATE_TEST_SUITE_P(All, DeviceAdapterBits, ::testing::Values("float32", "bfloat16"),
                         [](const auto& info) { return info.param; });

TEST(DeviceAdapters, AreInItsMemoryWhileSomebodyHoldsThem) {
  const ScratchFolder folder;
  write_model(folder.path() + "/model");
  const std::string path = write_adapter(folder.path() + "/own", "own", 0);
  const auto set = new_set();
  const auto runner = open_adapted(folder.path() + "/model", set, "bfloat16");
  ASSERT_NE(runner, nullptr);
  const auto step = [&](AdapterId adapter) {
    TestSequence sequence = greedy({1, 2, 3});
    sequence.adapter = adapter;
    EXPECT_TRUE(Driver(*runner, 16).generate({&sequence}, 1).ok());
    return runner->device_free_bytes();
  };
  const std::int64_t before = step(kNoAdapter);
  auto added = set->add("own", *Adapter::open(path, 1, {}));
  ASSERT_TRUE(added) << added.error().message();
  const std::int64_t with = step((*added)->id);
  EXPECT_GE(before - with, set->loaded_bytes());
  EXPECT_LE(before - with, set->most_bytes(1, false));
  EXPECT_EQ(set->most_bytes(8, false), set->most_bytes(1, false)) << "no more than there are";
  EXPECT_EQ(step((*added)->id), with) << "it is brought once";
  EXPECT_TRUE(set->remove("own"));
  EXPECT_EQ(step((*added)->id), with) << "a request holds it";
  // One of the largest rank in each matrix takes no more than is kept free for adapters that may come.
  const std::string largest = write_adapter(folder.path() + "/largest", "largest", 0, 64);
  ASSERT_TRUE(set->add("largest", *Adapter::open(largest, 1, {})));
  EXPECT_LE(set->most_bytes(1, false), set->most_bytes(1, true));
  EXPECT_GE(set->most_bytes(1, false), set->most_bytes(1, true) / 2) << "in bfloat16 it would take half";
  EXPECT_EQ(set->most_bytes(3, true), 3 * set->most_bytes(1, true));
  added->reset();
  EXPECT_GT(step(kNoAdapter), with);
}

// Those without rows in a step make room for those that have some, and come again.
TEST(DeviceAdapters, GoWhereOthersNeedTheirMemory) {
  const auto made = device::emulated::EmulatedDevice::create({.memory_bytes = 3 << 20});
  ASSERT_TRUE(made);
  device::Device& device = **made;
  const auto stream = device.create_stream();
  ASSERT_TRUE(stream);
  const auto of_megabytes = [](std::int32_t count) {
    constexpr std::int64_t kInputs = 512;
    const std::int32_t rank = count << 9;
    LowRank matrix(LowRank::Type::float32, kInputs);
    const std::vector<float> values(static_cast<std::size_t>(kInputs * rank), 0.5f);
    const std::int32_t place = matrix.add_right(values);
    matrix.add_left(0, place, rank, std::span(values).first(static_cast<std::size_t>(rank)), 1);
    return std::make_shared<const AdapterFactors>(AdapterFactors{.matrices = {std::move(matrix)}});
  };
  const auto a = of_megabytes(2), b = of_megabytes(2), large = of_megabytes(4);
  DeviceAdapters adapters(device, *stream);
  for (const auto& each : {a, b, a}) {
    const Status there = adapters.bring(std::array{each});
    ASSERT_TRUE(there.ok()) << there.message();
    EXPECT_NE(adapters.of(*each), nullptr);
    EXPECT_LT(adapters.size_bytes(), 3 << 20) << "one alone";
  }
  EXPECT_EQ(adapters.bring(std::array{a, b}).code(), StatusCode::resource_exhausted) << "a step of both";
  EXPECT_EQ(adapters.bring(std::array{large}).code(), StatusCode::resource_exhausted);
  EXPECT_TRUE(adapters.bring(std::array{b}).ok());
}

TEST(DeviceAdapters, AreRefusedByNameWhereTheyCannotBe) {
  auto source = ModelSource::open(kModels + "llama");
  ASSERT_TRUE(source);
  RunnerOptions options = {.dtype = "bfloat16"};
  options.adapters = new_set();
  const auto made = DeviceModelRunner::create(std::shared_ptr<const ModelSource>(*std::move(source)), options,
                                              *device::emulated::EmulatedDevice::create({}),
                                              {.products = MatrixProducts::w8a8});
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message().find("adapters that requests choose"), std::string::npos);
}

}  // namespace
}  // namespace pagoda::device_runner
