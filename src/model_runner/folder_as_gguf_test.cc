// Goal: a folder becomes the GGUF file that llama.cpp's converter makes of it, which computes what the folder
// does, or is refused. Each fixture of tests/fixtures/families is written, and the file compared with the
// fixture's own, whose header and transformations are the converter's.
#include "models/quantize/folder_as_gguf.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <set>
#include <sstream>

#include "kernels/dequantize.h"
#include "loader/test_files.h"
#include "model_runner/expect_golden.h"
#include "model_runner/family_model.h"

namespace pagoda::testing {
namespace {

// Those whose GGUF files say all that a folder says of them.
std::set<std::string> that_become_files() {
  std::istringstream names(
      "afmoe arcee bailing_moe2 bamba bloom cohere cohere2 cohere2_moe cohere2_vision cohere_plus "
      "deepseek_moe deepseek_v2 deepseek_v2_lite deepseek_v3 dots1 ernie4_5 ernie4_5_moe exaone exaone4 "
      "exaone4_full exaone_moe falcon falcon_grouped falcon_h1 falcon_h1_bias falcon_h1_norm falcon_mamba "
      "gemma gemma2 gemma_gelu glm glm4 glm4_moe glm4_moe_lite glm4_moe_plain glm4v glm4v_moe gpt_bigcode "
      "gpt_neox gpt_neox_serial granite_hybrid granite_hybrid_dense granite_swa_plain granitemoe "
      "granitemoeshared helium hunyuan hunyuan_moe hy_v3 hyperclovax_plain internvl internvl_chat "
      "iquestcoder jais2 jamba jamba_dense kimi_k25 lfm2 lfm2_moe lfm2_vl mamba mamba2 mamba_bias mellum "
      "minicpm minicpm3 minimax_m2 minimax_m2_half ministral3 mistral3_wrapped mistral4 mixtral moonlight "
      "mpt mpt_clip nemotron nemotron_h nemotron_h_bias nemotron_h_moe nemotron_h_tied olmo olmo3 "
      "olmo_plain olmoe phi phi3_long phi3_mixed phi3_short phimoe_plain qwen2_5_vl qwen2_moe "
      "qwen2_vl_flat qwen3_5 qwen3_5_moe qwen3_5_wrapped qwen3_moe qwen3_moe_window qwen3_next "
      "qwen3_vl_text qwen3_yarn seed_oss smallthinker smallthinker_full solar_open stablelm "
      "stablelm_12b stablelm_parallel starcoder2 unlisted_wrapper youtu");
  return {std::istream_iterator<std::string>(names), {}};
}

// Those whose numbers are the folder's but for their last bits: factors are in the matrices (falcon_h1); a
// number of the file follows from another (exaone, deepseek_v2_lite); sums go over heads (qwen3_5) or their
// elements (granite_hybrid, which does not rotate) in the file's order.
bool has_other_bits(std::string_view family) {
  return family.starts_with("falcon_h1") || family.starts_with("qwen3_5") || family == "exaone" ||
         family == "deepseek_v2_lite" || family == "granite_hybrid";
}

// Fields that the fixture has and the file leaves out, or has otherwise: they say what is so without them, or
// nothing that is read.
bool may_differ(const std::string& family, std::string_view key, const std::string& value) {
  static const std::set<std::string_view> kOnes = {"expert_group_count", "expert_group_used_count",
                                                   "interleave_moe_layer_step", "logit_scale",
                                                   "residual_scale"};
  static const std::set<std::string> kOthers = {
      "bloom.context_length",                         // a file without one has the family's
      "dots1.attention.sliding_window",               // no layer has one
      "exaone_moe.attention.sliding_window_pattern",  // the family's
      "granite_swa_plain.attention.sliding_window_pattern",
      "mamba.ssm.dt_b_c_rms",                              // false
      "ministral3.rope.scaling.yarn_log_multiplier",       // the factor that follows from it is there
      "gemma_embedding.attention.sliding_window_pattern",  // a list
      "modern_bert.hidden_activation",                     // the family's
      "modern_bert.rope.scaling.type",                     // none
      "nemotron_h_moe.feed_forward_length",                // no feed-forward is dense
      "qwen3_5_moe.feed_forward_length",                   // likewise
      "qwen3_5_moe.full_attention_interval",  // wrong of this fixture: attention.recurrent_layers
  };
  key.remove_prefix(key.find('.') + 1);
  if (key == "pooling_type" || key.starts_with("dense_")) return true;  // a command adds these
  return (value == "1" && kOnes.contains(key)) || kOthers.contains(family + "." + std::string(key));
}

std::string text_of(const GgufValue& value) {
  std::ostringstream out;
  out.precision(7);
  std::visit(
      [&](const auto& each) {
        if constexpr (requires { each->element; }) {
          for (const auto number : each->integers) out << number << " ";
          for (const auto number : each->floats) out << number << " ";
          for (const auto flag : each->booleans) out << flag << " ";
        } else {
          out << each;
        }
      },
      value);
  return std::move(out).str();
}

std::unique_ptr<LocalModelRunner> folder_runner(const std::string& model) {
  return new_runner(ModelSource::open(model, {}, {.quantize_activations = false}), family_options());
}

TestSequence drawn_greedily(const std::string& model, const boost::json::value& golden) {
  TestSequence sequence = greedy(ids_of(golden.as_object().at("prompt_ids")));
  const auto run = folder_runner(model);
  if (run == nullptr) return sequence;
  EXPECT_TRUE(run->ignored_tensors().empty()) << run->ignored_tensors().front();
  EXPECT_TRUE(Driver(*run).generate({&sequence}, 6).ok());
  return sequence;
}

// Writes a folder or a file as a file of this type. Returns whether it is not refused.
bool write_as(const std::string& from, DType type, const std::string& to) {
  const auto source = ModelSource::open(from);
  if (!source) return ADD_FAILURE() << source.error().message(), false;
  const auto model = (*source)->gguf() != nullptr ? model_of(*(*source)->gguf()) : folder_as_gguf(**source);
  if (!model) {
    EXPECT_NE(model.error().message().find("cannot become a GGUF file"), std::string_view::npos)
        << model.error().message();
    return false;
  }
  ThreadPool pool(1);
  const auto done = quantize_gguf(**source, *model, type, to, pool, [](std::int64_t) {});
  EXPECT_TRUE(done) << done.error().message();
  return static_cast<bool>(done);
}

// The file `made` of a fixture's folder has what the converter's has.
void expect_same_content(const std::string& made, const std::string& converted, const std::string& family) {
  const auto ours = GgufFile::open(made), theirs = GgufFile::open(converted);
  ASSERT_TRUE(ours && theirs);
  for (const auto& [key, value] : theirs->metadata()) {
    const auto own = ours->metadata().find(key);
    if (may_differ(family, key, text_of(value))) continue;
    if (own == ours->metadata().end())
      ADD_FAILURE() << key << " is missing: " << text_of(value);
    else
      EXPECT_EQ(text_of(own->second), text_of(value)) << key;
  }
  for (const auto& [name, tensor] : ours->tensors()) EXPECT_TRUE(theirs->tensors().contains(name)) << name;
  const auto lengths = [](std::vector<std::int64_t> shape) {
    std::erase(shape, 1);
    return shape;
  };
  for (const auto& [name, tensor] : theirs->tensors()) {
    if (name.starts_with("dense_")) continue;  // behind the pooling: the command refuses these
    const auto own = ours->tensors().find(name);
    ASSERT_NE(own, ours->tensors().end()) << name;
    ASSERT_EQ(lengths(own->second.shape), lengths(tensor.shape)) << name;
    std::vector<float> actual(static_cast<std::size_t>(tensor.elements())), expected(actual.size());
    dequantize(own->second.dtype, own->second.data, tensor.elements(), actual.data());
    dequantize(tensor.dtype, tensor.data, tensor.elements(), expected.data());
    for (std::size_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(actual[i], expected[i], 1e-5 * std::fabs(expected[i])) << name << " " << i;
  }
}

class FamilyAsGguf : public ::testing::TestWithParam<std::string> {
 protected:
  FamilyAsGguf()
      : folder_(write_family(GetParam(), scratch_.path() + "/" + GetParam())),
        family_(read_family(GetParam())) {}

  TestSequence drawn_greedily(const std::string& model) {
    return testing::drawn_greedily(model, family_.at("goldens").as_array().front());
  }

  // The file of this type; empty: it is refused.
  std::string written(const std::string& from, DType type, const std::string& name) {
    std::string path = scratch_.path() + "/" + name + ".gguf";
    const bool made = write_as(from, type, path);
    EXPECT_EQ(made, that_become_files().contains(GetParam()));
    return made ? path : "";
  }

  const ScratchFolder scratch_;
  std::string folder_;
  boost::json::object family_;
};

TEST_P(FamilyAsGguf, ComputesTheSameOrIsRefused) {
  const std::string made = written(folder_, DType::f32, "made");
  if (made.empty()) return;
  const auto run = folder_runner(made);
  ASSERT_NE(run, nullptr);
  for (const boost::json::value& line : family_.at("goldens").as_array())
    expect_golden(*run, run->kv_layout().block_size, line.as_object());
  if (!has_other_bits(GetParam())) expect_same_draws(drawn_greedily(made), drawn_greedily(folder_));
}

// The same bytes as by way of a file in float32, and what these mean is what is computed.
TEST_P(FamilyAsGguf, IsQuantisedAsItsFileIs) {
  const std::string made = written(folder_, DType::f32, "made");
  if (made.empty()) return;
  const std::string direct = written(folder_, DType::q8_0, "direct"),
                    other = written(made, DType::q8_0, "other");
  const auto ours = GgufFile::open(direct), theirs = GgufFile::open(other);
  ASSERT_TRUE(ours && theirs);
  ASSERT_EQ(ours->tensor_list().size(), theirs->tensor_list().size());
  std::int64_t quantised = 0;
  for (std::size_t i = 0; i < ours->tensor_list().size(); ++i) {
    const FileTensor &one = ours->tensor_list()[i], &two = theirs->tensor_list()[i];
    ASSERT_EQ(one.name, two.name);
    ASSERT_EQ(one.dtype, two.dtype) << one.name;
    ASSERT_EQ(one.bytes, two.bytes) << one.name;
    EXPECT_EQ(std::memcmp(one.data, two.data, static_cast<std::size_t>(one.bytes)), 0) << one.name;
    quantised += one.dtype != DType::f32 ? 1 : 0;
  }
  EXPECT_GT(quantised, 0);
  expect_same_draws(drawn_greedily(direct), drawn_greedily(written(direct, DType::f32, "meant")));
}

TEST_P(FamilyAsGguf, HasWhatTheConverterWrites) {
  const std::string made = written(folder_, DType::f32, "made"),
                    converted = write_family_gguf(GetParam(), scratch_.path());
  if (made.empty() || converted.empty()) return;
  if (GetParam() == "deepseek_v2_lite") return;  // whose fixture is of an old converter
  expect_same_content(made, converted, GetParam());
}

// A head that scores has no place in a file, nor have biases of a mixture's sum.
TEST(FolderAsGguf, Encoders) {
  const std::set<std::string> become = {"bert",        "bert_dense", "gemma_embedding",
                                        "modern_bert", "nomic_bert", "nomic_bert_moe_unbiased",
                                        "xlm_roberta"};
  for (const auto& file : std::filesystem::directory_iterator(PAGODA_SOURCE_DIR "/tests/fixtures/encoders")) {
    const std::string name = file.path().stem(), fixture = "../encoders/" + name;
    SCOPED_TRACE(name);
    if (name.starts_with("qwen3")) continue;  // decoders
    const ScratchFolder scratch;
    const std::string made = scratch.path() + "/made.gguf";
    ASSERT_EQ(write_as(write_family(fixture, scratch.path() + "/folder"), DType::f32, made),
              become.contains(name));
    const std::string converted = write_family_gguf(fixture, scratch.path());
    if (become.contains(name) && !converted.empty()) expect_same_content(made, converted, name);
  }
}

// A hybrid whose layers all attend is a file of a family without states.
TEST(FolderAsGguf, GraniteWithoutStates) {
  const boost::json::object family = read_family("granite_hybrid_dense");
  boost::json::object config = family.at("config").as_object();
  for (boost::json::value& type : config.at("layer_types").as_array()) type = "full_attention";
  std::vector<FamilyTensor> tensors = family_tensors(family);
  std::erase_if(tensors,
                [](const FamilyTensor& tensor) { return tensor.name.find(".mamba.") != tensor.name.npos; });
  for (const FamilyTensor& tensor : std::vector(tensors))
    for (const char* other : {".0.", ".2."})
      if (tensor.name.starts_with("model.layers.1.self_attn."))
        tensors.push_back(
            {"model.layers" + std::string(other) + tensor.name.substr(15), tensor.shape, tensor.values});
  const ScratchFolder scratch;
  scratch.write("config.json", boost::json::serialize(config));
  write_safetensors(scratch.path() + "/model.safetensors", tensors);
  const std::string path = scratch.path() + "/made.gguf";
  ASSERT_TRUE(write_as(scratch.path(), DType::f32, path));
  const auto file = GgufFile::open(path);
  ASSERT_TRUE(file);
  EXPECT_EQ(*file->string("general.architecture"), "granite");
  EXPECT_TRUE(file->tensors().contains("blk.0.ffn_gate.weight"));
  const boost::json::value& golden = family.at("goldens").as_array().front();
  expect_same_draws(drawn_greedily(path, golden), drawn_greedily(scratch.path(), golden));
}

// The families of tests/fixtures/tiny_models, GPT-2 among them, whose matrices lie there [in, out]. Refused
// are those that have no such files, and those with values that their family's files do not say.
TEST(FolderAsGguf, TinyModels) {
  const std::string root = PAGODA_SOURCE_DIR "/tests/fixtures/tiny_models/";
  const std::set<std::string> refused = {"gemma3", "opt", "opt_post_norm", "qwen2"};
  for (const std::string& name : folders_with(root, "config.json")) {
    SCOPED_TRACE(name);
    const ScratchFolder scratch;
    const std::string path = scratch.path() + "/made.gguf";
    const bool made = write_as(root + name, DType::f32, path);
    EXPECT_EQ(made, !refused.contains(name));
    if (!made) continue;
    const boost::json::object golden = read_json_lines(root + name + "/golden.jsonl").front();
    const auto run = folder_runner(path);
    ASSERT_NE(run, nullptr);
    expect_golden(*run, run->kv_layout().block_size, golden);
    if (name.starts_with("gpt2"))
      expect_same_draws(drawn_greedily(path, golden), drawn_greedily(root + name, golden));
  }
}

INSTANTIATE_TEST_SUITE_P(Families, FamilyAsGguf, ::testing::ValuesIn(all_families()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace pagoda::testing
