// Goal: a folder is quantised into one that is read again with nearly the same weights, whose other tensors
// and files are the old ones; what cannot be quantised is refused by name and leaves nothing behind.
#include "models/quantize/quantize_folder.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cmath>
#include <filesystem>

#include "kernels/dequantize.h"
#include "kernels/testing.h"
#include "loader/safetensors_writer.h"
#include "loader/test_files.h"
#include "models/quantize/test_sources.h"

namespace pagoda {
namespace {

namespace fs = std::filesystem;
using testing::opened;
using testing::ScratchFolder;

const std::string kModels = PAGODA_SOURCE_DIR "/tests/fixtures/";

std::vector<float> values_of(const ModelSource& source, const std::string& name) {
  const TensorView& tensor = *source.find(name);
  EXPECT_TRUE(source.bring_in(tensor).ok());
  std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
  dequantize(tensor.dtype, tensor.data, tensor.elements(), values.data());
  source.give_back(tensor);
  return values;
}

double lost(const std::vector<float>& values, const std::vector<float>& original) {
  double error = 0, size = 0;
  for (std::size_t i = 0; i < original.size(); ++i) {
    error += std::pow(static_cast<double>(values[i]) - original[i], 2);
    size += std::pow(static_cast<double>(original[i]), 2);
  }
  return std::sqrt(error / size);
}

std::string refused(const std::string& model, const std::string& type, const std::string& to) {
  const auto source = opened(model);
  ThreadPool pool(1);
  const auto done = quantize_folder(*source, *find_folder_scheme(type), to, pool, [](std::int64_t) {});
  return done ? std::string() : done.error().message();
}

// A Llama of one layer in `folder`, with a tokenizer's file.
void write_llama(const ScratchFolder& folder) {
  folder.write("config.json", R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","vocab_size":32,
      "hidden_size":64,"intermediate_size":160,"num_hidden_layers":1,"num_attention_heads":4,
      "num_key_value_heads":2,"max_position_embeddings":64,"rms_norm_eps":1e-5,"tie_word_embeddings":false})");
  folder.write("tokenizer_config.json", "{}");
  const std::string layer = "model.layers.0.";
  std::vector<SafetensorsEntry> entries;
  const auto add = [&](const std::string& name, const std::vector<std::int64_t>& shape) {
    const std::int64_t elements = shape.size() == 1 ? shape[0] : shape[0] * shape[1];
    entries.push_back({name + ".weight", "F32", shape, elements * 4});
  };
  for (const char* name : {"model.embed_tokens", "lm_head"}) add(name, {32, 64});
  for (const char* name : {"input_layernorm", "post_attention_layernorm"}) add(layer + name, {64});
  add("model.norm", {64});
  for (const char* name : {"q_proj", "o_proj"}) add(layer + "self_attn." + name, {64, 64});
  for (const char* name : {"k_proj", "v_proj"}) add(layer + "self_attn." + name, {32, 64});
  for (const char* name : {"gate_proj", "up_proj"}) add(layer + "mlp." + name, {160, 64});
  add(layer + "mlp.down_proj", {64, 160});
  auto writer = SafetensorsWriter::create(folder.path(), entries);
  ASSERT_TRUE(writer);
  std::uint64_t seed = 0;
  for (const SafetensorsEntry& entry : entries) {
    const std::vector<float> values = random_floats(++seed, static_cast<std::size_t>(entry.bytes / 4), 0.1f);
    ASSERT_TRUE((*writer)->write(std::as_bytes(std::span(values))).ok());
  }
  ASSERT_TRUE((*writer)->finish().ok());
}

class QuantizeFolder : public ::testing::TestWithParam<std::string> {};

TEST_P(QuantizeFolder, IsReadAgain) {
  const ScratchFolder scratch, model;
  write_llama(model);
  const std::string to = scratch.path() + "/new";
  const FolderScheme& scheme = *find_folder_scheme(GetParam());
  const auto source = opened(model.path());
  ASSERT_NE(source, nullptr);
  ThreadPool pool(2);
  std::int64_t last = 0;
  const auto done = quantize_folder(*source, scheme, to, pool, [&](std::int64_t bytes) {
    EXPECT_GE(bytes, last);
    last = bytes;
  });
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(last, done->bytes_before);
  EXPECT_LT(done->bytes_after, done->bytes_before);

  const auto made = opened(to);
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(made->tensor_names(), source->tensor_names());
  const FolderPlan plan = *plan_folder(*source, scheme);
  EXPECT_EQ(plan.quantised.size(), 7u);
  EXPECT_EQ(plan.kept, (std::vector<std::string>{"lm_head", "model.embed_tokens"}));
  const double most = GetParam() == "w8a8" ? 0.02 : GetParam() == "fp8" ? 0.04 : 0.2;
  for (const std::string& name : source->tensor_names()) {
    SCOPED_TRACE(name);
    const double error = lost(values_of(*made, name), values_of(*source, name));
    if (std::ranges::find(plan.quantised, name) == plan.quantised.end()) {
      EXPECT_EQ(error, 0);
      continue;
    }
    EXPECT_GT(error, 0);
    EXPECT_LT(error, most);
    EXPECT_EQ(made->inputs_of(*made->find(name)).is_own(), scheme.activations.empty());
  }
  EXPECT_EQ(made->side_file("tokenizer_config.json"), "{}");
  EXPECT_NE(refused(model.path(), GetParam(), to).find("it exists"), std::string::npos);
  EXPECT_NE(refused(to, "w8a8", scratch.path() + "/twice").find("quantised already"), std::string::npos);
  EXPECT_FALSE(fs::exists(scratch.path() + "/twice"));
}
INSTANTIATE_TEST_SUITE_P(Types, QuantizeFolder, ::testing::Values("w8a8", "w4a16", "fp8", "mxfp4"),
                         [](const auto& info) { return info.param; });

// As transformers writes time_step_limit of Mamba 2.
TEST(QuantizeFolderConfig, KeepsPythonsNumbers) {
  const ScratchFolder scratch, model;
  write_llama(model);
  const auto config = opened(model.path())->side_file("config.json");
  ASSERT_TRUE(config);
  model.write("config.json",
              config->substr(0, config->rfind('}')) + R"(,"time_step_limit":[0.0,Infinity],})");
  const std::string to = scratch.path() + "/new";
  EXPECT_EQ(refused(model.path(), "fp8", to), "");
  EXPECT_NE(opened(to)->side_file("config.json")->find("Infinity]"), std::string::npos);
}

TEST(QuantizeFolderPlan, TakesMatricesOfLayersAlone) {
  const auto source = opened(kModels + "tiny_models/mixtral");
  const auto plan = plan_folder(*source, *find_folder_scheme("w8a8"));
  ASSERT_TRUE(plan) << plan.error().message();
  const auto has = [](const std::vector<std::string>& names, std::string_view part) {
    return std::ranges::any_of(names,
                               [&](const std::string& name) { return name.find(part) != std::string::npos; });
  };
  for (const char* part : {"q_proj", "o_proj", ".experts.0.w2"})
    EXPECT_TRUE(has(plan->quantised, part)) << part;
  for (const char* part : {"lm_head", "block_sparse_moe.gate"}) EXPECT_TRUE(has(plan->kept, part)) << part;
  for (const char* part : {"moe.gate.weight", "embed", "norm"})
    EXPECT_FALSE(has(plan->quantised, part)) << part;
}

TEST(QuantizeFolderPlan, RefusesByName) {
  const ScratchFolder scratch;
  const std::string to = scratch.path() + "/new";
  EXPECT_NE(refused(kModels + "tiny_models/gpt2", "w8a8", to).find("[in, out]"), std::string::npos);
  EXPECT_NE(refused(kModels + "tiny_models/llama", "w4a16", to)
                .find("no matrix of the model can be stored as w4a16"),
            std::string::npos);
  EXPECT_NE(refused(kModels + "quantized/awq", "w8a8", to).find("the model is quantised already: AWQ"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(to));
  EXPECT_EQ(find_folder_scheme("w2a2"), nullptr);
}

TEST(SafetensorsWriter, CutsShards) {
  const ScratchFolder scratch;
  std::vector<SafetensorsEntry> entries;
  for (int i = 0; i < 5; ++i) entries.push_back({"t" + std::to_string(i), "F32", {4}, 16});
  auto writer = SafetensorsWriter::create(scratch.path(), entries, 32);
  ASSERT_TRUE(writer);
  std::vector<float> values(4);
  for (float i = 0; i < 5; ++i) {
    values.assign(4, i);
    ASSERT_TRUE((*writer)->write(std::as_bytes(std::span(values))).ok());
  }
  ASSERT_TRUE((*writer)->finish().ok());
  EXPECT_TRUE(fs::exists(scratch.path() + "/model-00003-of-00003.safetensors"));
  scratch.write("config.json", R"({"architectures":["X"]})");
  const auto source = opened(scratch.path());
  ASSERT_NE(source, nullptr);
  EXPECT_EQ(source->tensor_names().size(), 5u);
  EXPECT_EQ(values_of(*source, "t3"), std::vector<float>(4, 3.0f));
}

}  // namespace
}  // namespace pagoda
