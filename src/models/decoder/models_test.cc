// Goal: weights that are missing, misshapen or stored differently are refused or read by name, and the rotary
// frequencies follow the published formulas. Whole forward passes are compared in
// model_runner/golden_test.cc.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <numbers>

#include "models/decoder/decoder.h"
#include "models/family.h"
#include "models/rope_table.h"
#include "models/weight_names.h"
#include "models/weights/unused_tensors.h"
#include "models/weights/weight_reader.h"

namespace pagoda {
namespace {

// `model` is of this family.
void become(ModelInfo& model, std::string_view architecture) {
  const Family& family = family_named(architecture);
  model.family = &family;
  model.architecture = architecture;
  if (family.shape != nullptr) family.shape(model.decoder);
}

class FakeSource final : public ModelSource {
 public:
  explicit FakeSource(ModelFormat format = ModelFormat::hugging_face) : format_(format) {}

  // `seed` makes the tensors differ.
  void add(const std::string& name, std::vector<std::int64_t> shape, float seed = 1) {
    TensorView view;
    view.shape = std::move(shape);
    std::vector<float>& values = values_[name];
    values.clear();
    for (std::int64_t i = 0; i < view.elements(); ++i) {
      values.push_back(std::sin(seed * 17 + static_cast<float>(i) * 1.7f));
    }
    view.data = reinterpret_cast<const std::byte*>(values.data());
    tensors_[name] = view;
  }
  void add_bytes(const std::string& name, DType dtype, std::vector<std::int64_t> shape,
                 std::vector<std::byte> bytes) {
    bytes_[name] = std::move(bytes);
    tensors_[name] = {dtype, std::move(shape), bytes_[name].data()};
  }
  void remove(const std::string& name) { tensors_.erase(name); }
  void set_type(const std::string& name, DType dtype) { tensors_[name].dtype = dtype; }
  std::vector<float>& values(const std::string& name) { return values_[name]; }

  ModelFormat format() const override { return format_; }
  const TensorView* find(std::string_view name) const override {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? nullptr : &found->second;
  }
  std::vector<std::string> tensor_names() const override {
    std::vector<std::string> names;
    for (const auto& [name, view] : tensors_) names.push_back(name);
    return names;
  }
  const std::string& path() const override { return path_; }

  ModelInfo config_;

 private:
  ModelFormat format_;
  std::map<std::string, TensorView, std::less<>> tensors_;
  std::map<std::string, std::vector<float>> values_;
  std::map<std::string, std::vector<std::byte>> bytes_;
  std::string path_ = "fake";
};

constexpr std::int32_t kVocab = 10, kHidden = 8, kInner = 12, kHeads = 2, kHeadSize = 4, kPositions = 20;

FakeSource llama_source() {
  FakeSource source;
  DecoderConfig& decoder = source.config_.decoder;
  decoder.vocab_size = kVocab;
  decoder.hidden_size = decoder.embedding_size = kHidden;
  decoder.max_positions = kPositions;
  decoder.ropes = {{.rotary_size = kHeadSize}};
  decoder.final_norm = NormConfig{};
  decoder.layers = {{.mixer = AttentionConfig{.num_heads = kHeads,
                                              .num_kv_heads = 1,
                                              .head_size = kHeadSize,
                                              .scale = 1 / std::sqrt(static_cast<float>(kHeadSize))},
                     .feed_forward = DenseFeedForwardConfig{.intermediate_size = kInner},
                     .norm = {},
                     .mixer_norms = {},
                     .feed_forward_norms = {}}};
  become(source.config_, "llama");
  source.add("model.embed_tokens.weight", {kVocab, kHidden}, 1);
  source.add("model.norm.weight", {kHidden}, 2);
  source.add("lm_head.weight", {kVocab, kHidden}, 3);
  const std::string layer = "model.layers.0.";
  source.add(layer + "input_layernorm.weight", {kHidden}, 4);
  source.add(layer + "post_attention_layernorm.weight", {kHidden}, 5);
  source.add(layer + "self_attn.q_proj.weight", {kHeads * kHeadSize, kHidden}, 6);
  source.add(layer + "self_attn.k_proj.weight", {kHeadSize, kHidden}, 7);
  source.add(layer + "self_attn.v_proj.weight", {kHeadSize, kHidden}, 8);
  source.add(layer + "self_attn.o_proj.weight", {kHidden, kHeads * kHeadSize}, 9);
  source.add(layer + "mlp.gate_proj.weight", {kInner, kHidden}, 10);
  source.add(layer + "mlp.up_proj.weight", {kInner, kHidden}, 11);
  source.add(layer + "mlp.down_proj.weight", {kHidden, kInner}, 12);
  return source;
}

std::string load_error(const FakeSource& source, std::string_view dtype = "float32") {
  const auto decoder = DecoderModel::load(KernelContext{}, source, source.config_, dtype, 16);
  return decoder ? std::string() : decoder.error().message();
}

std::vector<float> logits_of(const FakeSource& source, const std::vector<std::int32_t>& ids) {
  auto decoder = DecoderModel::load(KernelContext{}, source, source.config_, "float32", 16);
  EXPECT_TRUE(decoder) << decoder.error().message();
  const DecoderConfig& config = (*decoder)->config();
  const KvLayout layout = {.dtype = DType::f32,
                           .num_layers = config.num_layers(),
                           .num_kv_heads = kv_heads(config)->num_kv_heads,
                           .head_size = kv_heads(config)->head_size,
                           .block_size = 16,
                           .latent_size = layer_states(config).front().latent_size};
  auto cache = Memory::reserve(layout.block_bytes());
  EXPECT_TRUE(cache);
  std::vector<std::int32_t> positions, rows;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    positions.push_back(static_cast<std::int32_t>(i));
    rows.push_back(static_cast<std::int32_t>(i));
  }
  const std::int32_t table = 0;
  const auto count = static_cast<std::int32_t>(ids.size());
  const AttentionSequence sequence = {
      .query_start = 0, .num_queries = count, .context_len = count, .block_table = &table};
  EXPECT_TRUE((*decoder)
                  ->forward({.token_ids = ids,
                             .positions = positions,
                             .sequences = std::span(&sequence, 1),
                             .output_rows = rows,
                             .layout = layout,
                             .cache = cache->data()})
                  .ok());
  std::vector<float> logits(ids.size() * static_cast<std::size_t>(config.vocab_size));
  EXPECT_TRUE((*decoder)->logits(0, count, Buffer::of(logits.data(), config.vocab_size)).ok());
  return logits;
}

TEST(Load, EveryMissingTensorIsNamed) {
  const FakeSource whole = llama_source();
  EXPECT_EQ(load_error(whole), "");
  for (const std::string& name : whole.tensor_names()) {
    FakeSource source = llama_source();
    source.remove(name);
    EXPECT_EQ(load_error(source), "tensor '" + name + "' is missing");
  }
}

TEST(Load, NamesThatProgramsThatTrainWrite) {
  const auto error = [](const std::function<std::string(const std::string&)>& written) {
    const FakeSource whole = llama_source();
    FakeSource source = llama_source();
    for (const std::string& name : whole.tensor_names()) {
      source.remove(name);
      source.add(written(name), whole.find(name)->shape);
    }
    return load_error(source);
  };
  EXPECT_EQ(error([](const std::string& name) { return "_orig_mod." + name; }), "");
  EXPECT_EQ(error([](const std::string& name) { return "module." + name; }), "");
  EXPECT_EQ(error([](const std::string& name) { return "base_model.model." + name; }),
            "tensor 'model.embed_tokens.weight' is missing; there is "
            "'base_model.model.model.embed_tokens.weight'");
  EXPECT_EQ(
      error([](std::string name) {
        const std::size_t at = name.find("q_proj.");
        return at == std::string::npos ? name : name.insert(at + 7, "base_layer.");
      }),
      "tensor 'model.layers.0.self_attn.q_proj.weight' is missing; there is "
      "'model.layers.0.self_attn.q_proj.base_layer.weight', as PEFT writes it: merge the adapter into its "
      "model");
}

TEST(Load, EveryMisshapenTensorIsNamedWithBothShapes) {
  for (const std::string& name : llama_source().tensor_names()) {
    FakeSource source = llama_source();
    const std::vector<std::int64_t> shape = source.find(name)->shape;
    std::vector<std::int64_t> wrong = shape;
    wrong.back() += 1;
    source.add(name, wrong);
    const std::string message = load_error(source);
    EXPECT_NE(message.find("'" + name + "'"), std::string::npos) << message;
    EXPECT_NE(message.find(std::to_string(wrong.back()) + "]"), std::string::npos) << message;
    EXPECT_NE(message.find(std::to_string(shape.back()) + "]"), std::string::npos) << message;
    wrong = shape;
    wrong.push_back(1);
    source.add(name, wrong);
    EXPECT_NE(load_error(source), "") << name;
  }
}

TEST(Load, OddSizesAreRefused) {
  const auto broken = [](auto change) {
    DecoderConfig decoder = llama_source().config_.decoder;
    EXPECT_TRUE(check_decoder(decoder).ok());
    change(decoder);
    return check_decoder(decoder).message();
  };
  EXPECT_NE(broken([](DecoderConfig& c) { c.layers[0].attention()->num_kv_heads = 3; }), "");
  EXPECT_NE(broken([](DecoderConfig& c) { c.ropes[0].rotary_size = 3; }), "");
  EXPECT_NE(broken([](DecoderConfig& c) { c.ropes[0].rotary_size = 6; }), "");
  EXPECT_NE(broken([](DecoderConfig& c) { c.vocab_size = 0; }), "");
  EXPECT_NE(broken([](DecoderConfig& c) { c.hidden_size = -4; }), "");
  EXPECT_NE(broken([](DecoderConfig& c) { c.layers[0].dense()->intermediate_size = 1 << 30; }), "");
  EXPECT_NE(broken([](DecoderConfig& c) { c.layers.clear(); }), "");
}

TEST(Load, IntegerTensorsAreRefused) {
  FakeSource source = llama_source();
  source.set_type("model.norm.weight", DType::i32);
  EXPECT_NE(load_error(source).find("I32"), std::string::npos);
}

TEST(Load, TensorsWithoutMeaningAreListedAndBuffersAreNot) {
  FakeSource source = llama_source();
  source.add("model.layers.0.self_attn.rotary_emb.inv_freq", {2});
  source.add("model.vision_tower.weight", {2});
  const auto decoder = DecoderModel::load(KernelContext{}, source, source.config_, "float32", 16);
  ASSERT_TRUE(decoder);
  EXPECT_EQ((*decoder)->weights().ignored_tensors, std::vector<std::string>{"model.vision_tower.weight"});
}

// As transformers has it: config.json decides unless the file holds another head.
TEST(Load, ATiedHeadIsTheEmbeddingUnlessAnotherIsStored) {
  FakeSource source = llama_source();
  const std::vector<float> untied = logits_of(source, {1, 2});
  source.config_.decoder.tied_head = true;
  EXPECT_EQ(logits_of(source, {1, 2}), untied);
  const auto decoder = DecoderModel::load(KernelContext{}, source, source.config_, "float32", 16);
  ASSERT_TRUE(decoder);
  EXPECT_FALSE((*decoder)->config().tied_head);
  FakeSource without = source;
  without.remove("lm_head.weight");
  const std::vector<float> tied = logits_of(without, {1, 2});
  EXPECT_NE(tied, untied);
  FakeSource same = source;
  same.add("lm_head.weight", {kVocab, kHidden}, 1);  // the embedding's seed
  EXPECT_EQ(logits_of(same, {1, 2}), tied);
  const auto of_same = DecoderModel::load(KernelContext{}, same, same.config_, "float32", 16);
  ASSERT_TRUE(of_same);
  EXPECT_TRUE((*of_same)->config().tied_head);
  EXPECT_TRUE((*of_same)->weights().ignored_tensors.empty());
}

// Kept once where the head's panels hold the embedding's values, else beside them as the file has it; tokens
// are the same either way.
TEST(Load, ATiedEmbeddingIsReadOutOfTheHead) {
  FakeSource source = llama_source();
  const auto embedding_bytes = [&](const FakeSource& from, std::string_view dtype) {
    const auto decoder = DecoderModel::load(KernelContext{}, from, from.config_, dtype, 16);
    EXPECT_TRUE(decoder);
    return decoder ? (*decoder)->weights().embedding_bytes() : -1;
  };
  const std::int64_t stored = source.find("model.embed_tokens.weight")->bytes();
  EXPECT_EQ(embedding_bytes(source, "float32"), stored);
  FakeSource tied = source;
  tied.config_.decoder.tied_head = true;
  tied.remove("lm_head.weight");
  EXPECT_EQ(embedding_bytes(tied, "float32"), 0);
  EXPECT_EQ(embedding_bytes(tied, "bfloat16"), stored);  // float32 values, which panels round

  FakeSource twice = tied;  // the same model with a head that differs by its last row
  twice.add("lm_head.weight", {kVocab, kHidden}, 1);
  twice.values("lm_head.weight").back() += 1;
  EXPECT_EQ(embedding_bytes(twice, "float32"), stored);
  const std::vector<float> once = logits_of(tied, {1, 2}), beside = logits_of(twice, {1, 2});
  ASSERT_EQ(once.size(), beside.size());
  for (std::size_t i = 0; i < once.size(); ++i) {
    if (i % kVocab + 1 != kVocab) EXPECT_EQ(once[i], beside[i]) << "logit " << i;
  }
}

TEST(WeightReader, OuterDimensionsOfOneSayNothing) {
  FakeSource source;
  source.add("row", {5});
  source.add("one", {1, 1, 5});
  source.add("scalar", {});
  source.add("column", {5, 1});
  WeightReader reader(source, "", {});
  EXPECT_EQ(reader.matrix("row", 1, 5).shape, (std::vector<std::int64_t>{1, 5}));
  EXPECT_EQ(reader.vector("one", 5).size(), 5u);
  EXPECT_EQ(reader.vector("scalar", 1).size(), 1u);
  ASSERT_TRUE(reader.status().ok()) << reader.status().message();
  reader.matrix("column", 1, 5);
  EXPECT_NE(reader.status().message().find("[5, 1] where the model needs [1, 5]"), std::string::npos);
}

TEST(Load, AnOptionalPrefixMayBeMissing) {
  const FakeSource whole = llama_source();
  FakeSource bare;
  bare.config_ = whole.config_;
  float seed[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const std::map<std::string, float> seeds = {{"model.embed_tokens.weight", seed[0]},
                                              {"model.norm.weight", seed[1]},
                                              {"lm_head.weight", seed[2]},
                                              {"model.layers.0.input_layernorm.weight", seed[3]},
                                              {"model.layers.0.post_attention_layernorm.weight", seed[4]},
                                              {"model.layers.0.self_attn.q_proj.weight", seed[5]},
                                              {"model.layers.0.self_attn.k_proj.weight", seed[6]},
                                              {"model.layers.0.self_attn.v_proj.weight", seed[7]},
                                              {"model.layers.0.self_attn.o_proj.weight", seed[8]},
                                              {"model.layers.0.mlp.gate_proj.weight", seed[9]},
                                              {"model.layers.0.mlp.up_proj.weight", seed[10]},
                                              {"model.layers.0.mlp.down_proj.weight", seed[11]}};
  for (const auto& [name, value] : seeds) {
    bare.add(name.starts_with("model.") ? name.substr(6) : name, whole.find(name)->shape, value);
  }
  EXPECT_EQ(logits_of(bare, {3, 1, 4}), logits_of(whole, {3, 1, 4}));
  const auto decoder = DecoderModel::load(KernelContext{}, bare, bare.config_, "float32", 16);
  EXPECT_TRUE((*decoder)->weights().ignored_tensors.empty());
}

TEST(Load, InterleavedRowsAreBroughtInOrderBiasesToo) {
  FakeSource plain = llama_source();
  const std::string layer = "model.layers.0.self_attn.";
  plain.add(layer + "q_proj.bias", {kHeads * kHeadSize}, 21);
  plain.add(layer + "k_proj.bias", {kHeadSize}, 22);
  const std::vector<float> expected = logits_of(plain, {1, 5, 7, 2});
  FakeSource stored = llama_source();
  stored.add(layer + "q_proj.bias", {kHeads * kHeadSize}, 21);
  stored.add(layer + "k_proj.bias", {kHeadSize}, 22);
  const auto interleave = [&](const std::string& name, std::size_t heads, std::size_t width) {
    const std::vector<float> before = stored.values(name);
    std::vector<float>& after = stored.values(name);
    const std::size_t half = kHeadSize / 2;
    for (std::size_t row = 0; row < heads * kHeadSize; ++row) {
      const std::size_t head = row / kHeadSize, d = row % kHeadSize;
      const std::size_t to = head * kHeadSize + (d < half ? 2 * d : 2 * (d - half) + 1);
      std::copy_n(before.begin() + static_cast<std::ptrdiff_t>(row * width), width,
                  after.begin() + static_cast<std::ptrdiff_t>(to * width));
    }
  };
  interleave(layer + "q_proj.weight", kHeads, kHidden);
  interleave(layer + "k_proj.weight", 1, kHidden);
  interleave(layer + "q_proj.bias", kHeads, 1);
  interleave(layer + "k_proj.bias", 1, 1);
  EXPECT_NE(logits_of(stored, {1, 5, 7, 2}), expected);
  stored.config_.decoder.interleaved_rows = true;
  EXPECT_EQ(logits_of(stored, {1, 5, 7, 2}), expected);
}

TEST(Load, OneBiasAmongThreeFillsTheOthersWithZero) {
  FakeSource one = llama_source(), all = llama_source();
  const std::string layer = "model.layers.0.self_attn.";
  one.add(layer + "k_proj.bias", {kHeadSize}, 5);
  all.add(layer + "k_proj.bias", {kHeadSize}, 5);
  all.add(layer + "q_proj.bias", {kHeads * kHeadSize});
  all.add(layer + "v_proj.bias", {kHeadSize});
  std::fill(all.values(layer + "q_proj.bias").begin(), all.values(layer + "q_proj.bias").end(), 0.0f);
  std::fill(all.values(layer + "v_proj.bias").begin(), all.values(layer + "v_proj.bias").end(), 0.0f);
  EXPECT_EQ(logits_of(one, {1, 2, 3}), logits_of(all, {1, 2, 3}));
  EXPECT_NE(logits_of(one, {1, 2, 3}), logits_of(llama_source(), {1, 2, 3}));
}

// A family's other names: tensors and the config under which the same weights mean the same.
FakeSource gemma_source(const std::string& prefix) {
  FakeSource source = llama_source();
  FakeSource gemma;
  gemma.config_ = source.config_;
  DecoderConfig& decoder = gemma.config_.decoder;
  decoder.layers[0].dense()->activation = Activation::gelu_tanh;
  decoder.tied_head = true;
  decoder.ropes.push_back({.theta = 10, .rotary_size = kHeadSize});
  decoder.layers[0].attention()->sliding_window = 2;
  decoder.layers[0].attention()->rope = 1;
  become(gemma.config_, "gemma3");
  float seed = 1;
  const auto add = [&](const std::string& name, std::vector<std::int64_t> shape) {
    gemma.add(prefix + name, std::move(shape), seed++);
  };
  for (const std::string& name : source.tensor_names()) {
    if (name.starts_with("model.")) add(name.substr(6), source.find(name)->shape);
  }
  const std::string layer = "layers.0.";
  add(layer + "pre_feedforward_layernorm.weight", {kHidden});
  add(layer + "post_feedforward_layernorm.weight", {kHidden});
  add(layer + "self_attn.q_norm.weight", {kHeadSize});
  add(layer + "self_attn.k_norm.weight", {kHeadSize});
  return gemma;
}

TEST(Load, ALanguageModelIsFoundInsideOfOneThatSees) {
  const std::vector<float> plain = logits_of(gemma_source("model."), {1, 2, 3, 4});
  for (const char* prefix : {"model.language_model.", "language_model.model.", ""}) {
    FakeSource source = gemma_source(prefix);
    source.add("vision_tower.patch.weight", {2});
    EXPECT_EQ(logits_of(source, {1, 2, 3, 4}), plain) << prefix;
    const auto decoder = DecoderModel::load(KernelContext{}, source, source.config_, "float32", 16);
    EXPECT_EQ((*decoder)->weights().ignored_tensors, std::vector<std::string>{"vision_tower.patch.weight"});
  }
}

TEST(Load, NormsStoredWithoutTheirOneGetIt) {
  FakeSource whole = gemma_source("model."), less = gemma_source("model.");
  for (const std::string& name : less.tensor_names()) {
    if (!name.ends_with("norm.weight")) continue;
    for (float& value : less.values(name)) value -= 1;
  }
  less.config_.decoder.layers[0].norm.weight_offset = less.config_.decoder.final_norm->weight_offset = 1;
  const std::vector<float> expected = logits_of(whole, {1, 2, 3, 4}), got = logits_of(less, {1, 2, 3, 4});
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-4) << i;
}

TEST(UnusedTensors, AreSaidInOneLine) {
  const std::vector<std::string> names = {"model.layers.4.input_layernorm.weight", "model.mtp.fc.weight",
                                          "vision_tower.layers.0.weight", "lm_bias"};
  UnusedTensors unused = describe_unused(names, 4);
  EXPECT_EQ(unused.beside_text,
            "2 tensors of multi-token prediction, 1 for pictures and sounds (vision_tower)");
  EXPECT_EQ(unused.unknown, "1 tensor (lm_bias)");
  unused = describe_unused(std::vector<std::string>{"model.visual.blocks.0.a", "model.visual.blocks.1.a",
                                                    "multi_modal_projector.linear.weight"},
                           1);
  EXPECT_EQ(unused.beside_text, "3 tensors for pictures and sounds (multi_modal_projector, visual)");
  EXPECT_EQ(unused.unknown, "");
  EXPECT_EQ(describe_unused({}, 4).beside_text, "");
}

TEST(Layers, SayWhatTheyKeep) {
  FakeSource source = gemma_source("model.");
  DecoderConfig decoder = source.config_.decoder;
  decoder.layers.assign(3, decoder.layers[0]);
  decoder.layers[1].attention()->sliding_window = 0;
  const LayerState window = {.kind = LayerState::Kind::window,
                             .window = 2,
                             .num_kv_heads = 1,
                             .head_size = kHeadSize},
                   full = {.num_kv_heads = 1, .head_size = kHeadSize};
  EXPECT_EQ(layer_states(decoder), (std::vector<LayerState>{window, full, window}));
  DecoderConfig other = decoder;
  other.layers[1].attention()->num_kv_heads = 2;
  EXPECT_TRUE(kv_heads(decoder).has_value());
  EXPECT_FALSE(kv_heads(other).has_value());
}

// Two heads whose queries have 8 elements for the latent vector and 4 that are rotated, and values of 6.
constexpr std::int32_t kLatent = 32, kNope = 8, kTurned = 4, kValue = 6;

FakeSource latent_source() {
  FakeSource source(ModelFormat::gguf);
  source.config_ = llama_source().config_;
  become(source.config_, "deepseek2");
  DecoderConfig& decoder = source.config_.decoder;
  decoder.interleaved_rows = true;
  decoder.ropes[0].rotary_size = kTurned;
  decoder.layers[0].mixer =
      LatentAttentionConfig{.num_heads = kHeads,
                            .latent_size = kLatent,
                            .nope_size = kNope,
                            .rope_size = kTurned,
                            .value_size = kValue,
                            .scale = 1 / std::sqrt(static_cast<float>(kNope + kTurned))};
  source.add("token_embd.weight", {kVocab, kHidden}, 1);
  source.add("output_norm.weight", {kHidden}, 2);
  source.add("output.weight", {kVocab, kHidden}, 3);
  source.add("blk.0.attn_norm.weight", {kHidden}, 4);
  source.add("blk.0.ffn_norm.weight", {kHidden}, 5);
  source.add("blk.0.attn_q.weight", {kHeads * (kNope + kTurned), kHidden}, 6);
  source.add("blk.0.attn_kv_a_mqa.weight", {kLatent + kTurned, kHidden}, 7);
  source.add("blk.0.attn_kv_a_norm.weight", {kLatent}, 8);
  source.add("blk.0.attn_kv_b.weight", {kHeads * (kNope + kValue), kLatent}, 9);
  source.add("blk.0.attn_output.weight", {kHidden, kHeads * kValue}, 10);
  source.add("blk.0.ffn_gate.weight", {kInner, kHidden}, 11);
  source.add("blk.0.ffn_up.weight", {kInner, kHidden}, 12);
  source.add("blk.0.ffn_down.weight", {kHidden, kInner}, 13);
  // Whole numbers of 64ths, which 8 bits hold as they are.
  for (float& value : source.values("blk.0.attn_kv_b.weight")) value = std::round(value * 127) / 64;
  return source;
}

TEST(Latent, KeysAndValuesInOneMatrixApartAndQuantizedMeanTheSame) {
  const FakeSource source = latent_source();
  const std::vector<std::int32_t> ids = {4, 4, 1, 9, 0, 7};
  const std::vector<float> expected = logits_of(source, ids);
  FakeSource apart = latent_source(), quantized = latent_source();
  const std::vector<float> both = apart.values("blk.0.attn_kv_b.weight");
  apart.remove("blk.0.attn_kv_b.weight");
  apart.add("blk.0.attn_k_b.weight", {kHeads, kLatent, kNope});
  apart.add("blk.0.attn_v_b.weight", {kHeads, kValue, kLatent});
  const auto at = [&](std::int32_t head, std::int32_t row, std::int32_t i) {
    return both[static_cast<std::size_t>((head * (kNope + kValue) + row) * kLatent + i)];
  };
  std::vector<float> keys, values;
  for (std::int32_t head = 0; head < kHeads; ++head) {
    for (std::int32_t i = 0; i < kLatent; ++i)
      for (std::int32_t row = 0; row < kNope; ++row) keys.push_back(at(head, row, i));
    for (std::int32_t row = 0; row < kValue; ++row)
      for (std::int32_t i = 0; i < kLatent; ++i) values.push_back(at(head, kNope + row, i));
  }
  std::ranges::copy(keys, apart.values("blk.0.attn_k_b.weight").begin());
  std::ranges::copy(values, apart.values("blk.0.attn_v_b.weight").begin());
  EXPECT_EQ(logits_of(apart, ids), expected);

  std::vector<std::byte> blocks;  // Q8_0: a scale in f16, 1/64, and 32 numbers
  for (std::size_t i = 0; i < both.size(); ++i) {
    if (i % 32 == 0) blocks.insert(blocks.end(), {std::byte{0x00}, std::byte{0x24}});
    blocks.push_back(static_cast<std::byte>(static_cast<std::int8_t>(both[i] * 64)));
  }
  quantized.add_bytes("blk.0.attn_kv_b.weight", DType::q8_0, {kHeads * (kNope + kValue), kLatent}, blocks);
  EXPECT_EQ(logits_of(quantized, ids), expected);

  FakeSource incomplete = apart;
  incomplete.remove("blk.0.attn_v_b.weight");
  EXPECT_EQ(load_error(incomplete), "tensor 'blk.0.attn_v_b.weight' is missing");
}

TEST(Latent, LayersKeepOneRow) {
  EXPECT_EQ(
      layer_states(latent_source().config_.decoder),
      (std::vector<LayerState>{{.num_kv_heads = 1, .head_size = kLatent + kTurned, .latent_size = kLatent}}));
}

TEST(Decoder, OutputRowsAreThoseAskedFor) {
  const FakeSource source = llama_source();
  const std::vector<float> all = logits_of(source, {4, 4, 1, 9, 0});
  auto decoder = DecoderModel::load(KernelContext{}, source, source.config_, "float32", 16);
  ASSERT_TRUE(decoder);
  const KvLayout layout = {
      .dtype = DType::f32, .num_layers = 1, .num_kv_heads = 1, .head_size = kHeadSize, .block_size = 16};
  auto cache = Memory::reserve(layout.block_bytes());
  const std::vector<std::int32_t> ids = {4, 4, 1, 9, 0}, positions = {0, 1, 2, 3, 4}, rows = {1, 4};
  const std::int32_t table = 0;
  const AttentionSequence sequence = {
      .query_start = 0, .num_queries = 5, .context_len = 5, .block_table = &table};
  EXPECT_TRUE((*decoder)
                  ->forward({.token_ids = ids,
                             .positions = positions,
                             .sequences = std::span(&sequence, 1),
                             .output_rows = rows,
                             .layout = layout,
                             .cache = cache->data()})
                  .ok());
  std::vector<float> got(kVocab);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE((*decoder)->logits(static_cast<std::int64_t>(i), 1, Buffer::of(got.data(), kVocab)).ok());
    const auto* expected = all.data() + rows[i] * kVocab;
    EXPECT_EQ(got, std::vector<float>(expected, expected + kVocab));
  }
}

TEST(Rope, FrequenciesFollowTheFormulas) {
  RopeConfig config = {.theta = 10000, .rotary_size = 8};
  const std::vector<double> plain = rope_frequencies(config, {});
  ASSERT_EQ(plain.size(), 4u);
  EXPECT_DOUBLE_EQ(plain[0], 1);
  EXPECT_NEAR(plain[1], 0.1, 1e-12);
  EXPECT_NEAR(plain[3], 0.001, 1e-12);
  config.scaling = RopeScaling::linear;
  config.factor = 4;
  EXPECT_NEAR(rope_frequencies(config, {})[1], 0.025, 1e-12);
  // llama3: short wavelengths stay, long ones are divided, those between are blended.
  config.scaling = RopeScaling::llama3;
  config.low_freq_factor = 1;
  config.high_freq_factor = 4;
  config.original_positions = 100;
  const std::vector<double> scaled = rope_frequencies(config, {});
  EXPECT_DOUBLE_EQ(scaled[0], 1);                           // wavelength 6.3 < 100 / 4
  const double turns = 100 * 0.1 / (2 * std::numbers::pi);  // wavelength 62.8, between 25 and 100
  const double smooth = (turns - 1) / 3;
  EXPECT_NEAR(scaled[1], (1 - smooth) * 0.1 / 4 + smooth * 0.1, 1e-12);
  EXPECT_NEAR(scaled[3], 0.001 / 4, 1e-12);
  // Factors from the file divide before a scaling does.
  const std::vector<float> factors = {1, 2, 4, 8};
  config.scaling = RopeScaling::none;
  EXPECT_NEAR(rope_frequencies(config, factors)[3], 0.001 / 8, 1e-12);
  config.scaling = RopeScaling::linear;
  EXPECT_NEAR(rope_frequencies(config, factors)[3], 0.001 / 8 / 4, 1e-12);
}

TEST(Rope, RowsAppearAsPositionsAreReachedAndStay) {
  const RopeConfig config = {.theta = 100, .rotary_size = 4};
  auto table = RopeTable::create({}, config, {}, 200);
  ASSERT_TRUE(table);
  const float* rows = floats(table->rows(KernelContext{}, 3));
  EXPECT_FLOAT_EQ(rows[0], 1);
  EXPECT_FLOAT_EQ(rows[2 * 4], std::cos(2.0f));
  EXPECT_FLOAT_EQ(rows[2 * 4 + 3], std::sin(0.2f));
  EXPECT_EQ(floats(table->rows(KernelContext{}, 200)), rows);
  EXPECT_FLOAT_EQ(rows[199 * 4], static_cast<float>(std::cos(199.0)));
  EXPECT_FLOAT_EQ(rows[2 * 4 + 3], std::sin(0.2f));
}

}  // namespace
}  // namespace pagoda
