#include "loader/gguf_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <span>

#include "base/strings.h"
#include "loader/printable.h"

namespace pagoda {
namespace {

// What follows "ARCHITECTURE." in keys that are read below, or that change nothing.
constexpr std::array kKnownKeys = {
    "vocab_size",
    "context_length",
    "embedding_length",
    "block_count",
    "feed_forward_length",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "attention.layer_norm_epsilon",
    "attention.layer_norm_rms_epsilon",
    "attention.sliding_window",
    "attention.causal",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scale_linear",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.attn_factor",
    "rope.scaling.original_context_length",
    "rope.scaling.finetuned",
    "tensor_data_layout",
    "use_parallel_residual",
    "expert_count",
    "expert_used_count",
    "pooling_type",
};

// The same of families with mixtures of experts.
constexpr std::array kExpertKeys = {
    "expert_feed_forward_length", "expert_shared_feed_forward_length",
    "expert_shared_count",        "expert_weights_scale",
    "expert_weights_norm",        "expert_gating_func",
    "expert_group_count",         "expert_group_used_count",
    "leading_dense_block_count",  "interleave_moe_layer_step",
    "nextn_predict_layers",
};

// Reads keys of one architecture; the first failure is kept, as in config_json.cc.
class Keys {
 public:
  Keys(const GgufFile& file, std::string_view architecture)
      : file_(file), prefix_(concat(architecture, ".")) {}

  bool has(std::string_view name) const { return file_.metadata().contains(key(name)); }

  // A scalar, or an array of which all elements are equal (llama.cpp writes per-layer values so).
  std::int32_t integer(std::string_view name, std::optional<std::int32_t> otherwise = std::nullopt) {
    const std::string full = key(name);
    if (!file_.metadata().contains(full)) {
      if (!otherwise) fail(corrupt_data(concat("GGUF metadata '", full, "' is missing")));
      return otherwise.value_or(0);
    }
    std::optional<std::int64_t> value = file_.integer(full);
    if (const GgufArray* array = file_.array(full); array != nullptr && !array->integers.empty()) {
      value = array->integers.front();
      if (std::any_of(array->integers.begin(), array->integers.end(),
                      [&](auto each) { return each != *value; })) {
        fail(unimplemented(
            concat("GGUF metadata '", full, "' differs between layers, which is not supported")));
      }
    }
    if (!value || *value < std::numeric_limits<std::int32_t>::min() ||
        *value > std::numeric_limits<std::int32_t>::max()) {
      fail(corrupt_data(concat("GGUF metadata '", full, "' is not a 32-bit integer")));
      return 0;
    }
    return static_cast<std::int32_t>(*value);
  }

  float number(std::string_view name, std::optional<float> otherwise = std::nullopt) {
    const std::string full = key(name);
    const std::optional<double> value = file_.number(full);
    if (value) return static_cast<float>(*value);
    if (file_.metadata().contains(full)) {
      fail(corrupt_data(concat("GGUF metadata '", full, "' is not a number")));
    } else if (!otherwise) {
      fail(corrupt_data(concat("GGUF metadata '", full, "' is missing")));
    }
    return otherwise.value_or(1.0f);
  }

  std::string string(std::string_view name, std::string_view otherwise) {
    const std::string full = key(name);
    if (const std::string* value = file_.string(full)) return *value;
    if (file_.metadata().contains(full))
      fail(corrupt_data(concat("GGUF metadata '", full, "' is not a string")));
    return std::string(otherwise);
  }

  bool boolean(std::string_view name, bool otherwise) {
    const std::string full = key(name);
    if (const std::optional<bool> value = file_.boolean(full)) return *value;
    if (file_.metadata().contains(full))
      fail(corrupt_data(concat("GGUF metadata '", full, "' is not true or false")));
    return otherwise;
  }

  // `own`: those of this family alone.
  void refuse_unknown(std::span<const std::string_view> own, bool experts) {
    for (const auto& [full, value] : file_.metadata()) {
      if (!full.starts_with(prefix_)) continue;
      const std::string_view name = std::string_view(full).substr(prefix_.size());
      if (std::find(kKnownKeys.begin(), kKnownKeys.end(), name) != kKnownKeys.end() ||
          std::find(own.begin(), own.end(), name) != own.end() || is_zero(value))
        continue;
      if (experts && std::find(kExpertKeys.begin(), kExpertKeys.end(), name) != kExpertKeys.end()) continue;
      fail(unimplemented(concat("GGUF option '", printable(full), "' is not supported")));
    }
  }

  void fail(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }
  const Status& status() const { return status_; }

 private:
  std::string key(std::string_view name) const { return concat(prefix_, name); }
  static bool is_zero(const GgufValue& value) {
    if (const auto* number = std::get_if<std::int64_t>(&value)) return *number == 0;
    if (const auto* number = std::get_if<std::uint64_t>(&value)) return *number == 0;
    if (const auto* number = std::get_if<double>(&value)) return *number == 0;
    if (const auto* boolean = std::get_if<bool>(&value)) return !*boolean;
    return false;
  }

  const GgufFile& file_;
  std::string prefix_;
  Status status_;
};

void read_rope(Keys& keys, ModelConfig& config) {
  config.rotary_size = keys.integer("rope.dimension_count", config.head_size);
  config.rope_theta = keys.number("rope.freq_base", 10000.0f);
  const std::string type = keys.string("rope.scaling.type", "");
  const float factor = keys.has("rope.scaling.factor") ? keys.number("rope.scaling.factor")
                                                       : keys.number("rope.scale_linear", 1.0f);
  if (type == "linear" || (type.empty() && factor != 1.0f && factor != 0.0f)) {
    config.rope_scaling = RopeScaling::linear;
    config.rope_factor = factor;
  } else if (!type.empty() && type != "none") {
    keys.fail(unimplemented(
        concat("rope scaling type '", printable(type),
               "' is not supported; supported: none, linear, and llama3 by rope_freqs.weight")));
  }
  if (keys.number("rope.scaling.attn_factor", 1.0f) != 1.0f) {
    keys.fail(unimplemented("GGUF option 'rope.scaling.attn_factor' is not supported"));
  }
}

// Every `period`-th layer attends to all, or as an array of booleans says, one for each layer.
void read_window_pattern(const GgufFile& file, Keys& keys, std::int32_t period, ModelConfig& config) {
  const GgufArray* pattern = file.array(concat(config.architecture, ".attention.sliding_window_pattern"));
  if (pattern != nullptr && !pattern->booleans.empty()) {
    config.window_layers = pattern->booleans;
  } else {
    period = keys.integer("attention.sliding_window_pattern", period);
    if (period < 1)
      return keys.fail(corrupt_data("GGUF metadata 'attention.sliding_window_pattern' is not positive"));
    for (std::int32_t layer = 0; layer < std::clamp(config.num_layers, 0, 4096); ++layer)
      config.window_layers.push_back((layer + 1) % period != 0);
  }
  if (config.sliding_window == 0) config.window_layers.clear();
}

void read_special_tokens(const GgufFile& file, ModelConfig& config) {
  const auto token = [&](std::string_view name) -> std::int32_t {
    const std::optional<std::int64_t> id = file.integer(concat("tokenizer.ggml.", name, "_token_id"));
    // UINT32_MAX stands for "none" in some files; anything outside the vocabulary is dropped later.
    return id && *id >= 0 && *id <= std::numeric_limits<std::int32_t>::max() ? static_cast<std::int32_t>(*id)
                                                                             : -1;
  };
  config.bos_token_id = token("bos");
  config.pad_token_id = token("padding");
  // End of text, of turn and of message: each ends generation.
  for (const std::string_view name : {"eos", "eot", "eom"}) {
    const std::int32_t id = token(name);
    if (id >= 0 && std::find(config.eos_token_ids.begin(), config.eos_token_ids.end(), id) ==
                       config.eos_token_ids.end()) {
      config.eos_token_ids.push_back(id);
    }
  }
}

// Some files do not name the token that ends Gemma's turns.
void read_end_of_turn(const GgufFile& file, ModelConfig& config) {
  const GgufArray* tokens = file.array("tokenizer.ggml.tokens");
  for (std::size_t id = 0; tokens != nullptr && id < std::min<std::size_t>(tokens->strings.size(), 1024);
       ++id) {
    const auto token_id = static_cast<std::int32_t>(id);
    if (tokens->strings[id] == "<end_of_turn>" &&
        std::find(config.eos_token_ids.begin(), config.eos_token_ids.end(), token_id) ==
            config.eos_token_ids.end())
      config.eos_token_ids.push_back(token_id);
  }
}

// What families have beside what all have.
void read_gemma3(const GgufFile& file, Keys& keys, ModelConfig& config) {
  config.rope_local_theta = keys.number("rope.freq_base_swa", 10000.0f);
  read_window_pattern(file, keys, 6, config);
  read_end_of_turn(file, config);
  // The file does not say that the 27B model, alone with 62 layers, divides by its width a head.
  if (config.num_layers == 62 && config.num_heads > 0)
    config.attention_scale =
        1.0f / std::sqrt(static_cast<float>(config.hidden_size) / static_cast<float>(config.num_heads));
}

void read_granite(const GgufFile&, Keys& keys, ModelConfig& config) {
  config.embedding_scale = keys.number("embedding_scale", 1.0f);
  config.residual_scale = keys.number("residual_scale", 1.0f);
  config.attention_scale = keys.number("attention.scale", 0.0f);
  config.logit_scale = 1 / keys.number("logit_scale", 1.0f);
}

// OLMo 3 comes under the same name, with windows in three of four layers.
void read_olmo2(const GgufFile&, Keys& keys, ModelConfig& config) {
  if (config.sliding_window > 0) keys.fail(unimplemented("OLMo with sliding windows is not supported"));
}

void read_phi3(const GgufFile& file, Keys& keys, ModelConfig&) {
  for (const GgufTensor& tensor : file.tensor_list())
    if (tensor.name == "rope_factors_long.weight")
      keys.fail(unimplemented("rope scaling type 'longrope' is not supported"));
}

void read_smollm3(const GgufFile&, Keys&, ModelConfig& config) {
  for (std::int32_t layer = 0; layer < std::clamp(config.num_layers, 0, 4096); ++layer)
    config.rope_layers.push_back((layer + 1) % 4 != 0);
}

// How a family's experts are chosen where the file does not say so.
struct GgufExperts {
  bool known = false;
  ExpertScore score = ExpertScore::softmax;
  bool renormalize = true;
};

void read_experts(Keys& keys, const GgufExperts& family, ModelConfig& config) {
  ExpertsConfig& experts = config.experts;
  experts.count = keys.integer("expert_count", 0);
  if (experts.count == 0) return;
  // Blocks behind the model that only draft tokens.
  config.num_layers -= keys.integer("nextn_predict_layers", 0);
  experts.per_token = keys.integer("expert_used_count");
  experts.intermediate_size = keys.integer("expert_feed_forward_length", config.intermediate_size);
  if (config.intermediate_size == 0) config.intermediate_size = experts.intermediate_size;
  const std::int32_t shared = keys.integer("expert_shared_count", 0);
  const std::int64_t shared_size = std::int64_t{shared} * experts.intermediate_size;
  experts.shared_intermediate_size =
      keys.integer("expert_shared_feed_forward_length",
                   static_cast<std::int32_t>(std::clamp<std::int64_t>(shared_size, -1, 1 << 30)));
  experts.score = family.score;
  switch (const std::int32_t score = keys.integer("expert_gating_func", 0)) {
    case 0:
      break;
    case 1:
      experts.score = ExpertScore::softmax;
      break;
    case 2:
      experts.score = ExpertScore::sigmoid;
      break;
    case 3:
      experts.score = ExpertScore::softmax_of_chosen;
      break;
    default:
      keys.fail(unimplemented(
          concat("GGUF option 'expert_gating_func' = ", score,
                 " is not supported; supported: 1, 2, 3 (softmax, sigmoid, softmax of those chosen)")));
  }
  experts.renormalize = keys.boolean("expert_weights_norm", family.renormalize);
  const float scale = keys.number("expert_weights_scale", 1.0f);
  experts.scale = scale == 0 ? 1.0f : scale;
  experts.groups = std::max(keys.integer("expert_group_count", 1), 1);
  experts.groups_used = std::max(keys.integer("expert_group_used_count", 1), 1);
  const std::int32_t leading = keys.integer("leading_dense_block_count", 0);
  const std::int32_t step = std::max(keys.integer("interleave_moe_layer_step", 1), 1);
  for (std::int32_t layer = 0; layer < std::clamp(config.num_layers, 0, 4096); ++layer)
    experts.layers.push_back(layer >= leading && (layer + 1) % step == 0);
}

// A layer has a mixture if the file has a router for it.
void read_layers_with_routers(const GgufFile& file, Keys&, ModelConfig& config) {
  std::set<std::string_view> names;
  for (const GgufTensor& tensor : file.tensor_list()) names.insert(tensor.name);
  for (std::size_t layer = 0; layer < config.experts.layers.size(); ++layer)
    config.experts.layers[layer] = names.contains(concat("blk.", layer, ".ffn_gate_inp.weight"));
}

void read_qwen2_moe(const GgufFile& file, Keys& keys, ModelConfig& config) {
  read_layers_with_routers(file, keys, config);
  config.experts.shared_gate = true;
}

struct GgufFamily {
  std::string_view name;
  std::string_view activation = "silu";
  bool layer_norm = false;        // and learned positions
  bool interleaved_rows = false;  // q/k rows stored for adjacent-pair rotation
  void (*read)(const GgufFile& file, Keys& keys, ModelConfig& config) = nullptr;
  std::array<std::string_view, 4> own_keys = {};
  GgufExperts experts = {};
};
constexpr auto kFamilies = std::to_array<GgufFamily>({
    {.name = "llama", .interleaved_rows = true, .read = read_layers_with_routers, .experts = {.known = true}},
    {.name = "qwen2"},
    {.name = "qwen3"},
    {.name = "qwen2moe", .read = read_qwen2_moe, .experts = {.known = true, .renormalize = false}},
    {.name = "qwen3moe", .read = read_layers_with_routers, .experts = {.known = true}},
    {.name = "gpt2", .activation = "gelu_new", .layer_norm = true},
    {.name = "gemma3",
     .activation = "gelu_new",
     .read = read_gemma3,
     .own_keys = {"attention.sliding_window_pattern", "rope.freq_base_swa"}},
    {.name = "granite",
     .interleaved_rows = true,
     .read = read_granite,
     .own_keys = {"embedding_scale", "residual_scale", "logit_scale", "attention.scale"}},
    {.name = "olmo2", .read = read_olmo2},
    {.name = "phi3", .read = read_phi3},
    {.name = "smollm3", .interleaved_rows = true, .read = read_smollm3},
});

std::string supported_names() {
  std::string names;
  for (const GgufFamily& family : kFamilies) names += concat(names.empty() ? "" : ", ", family.name);
  return names;
}

}  // namespace

Result<ModelConfig> gguf_config(const GgufFile& file) {
  const std::string* architecture = file.string("general.architecture");
  if (architecture == nullptr) return corrupt_data("GGUF metadata 'general.architecture' is missing");
  const auto family = std::find_if(kFamilies.begin(), kFamilies.end(),
                                   [&](const GgufFamily& each) { return each.name == *architecture; });
  if (family == kFamilies.end()) return unsupported_architecture(*architecture, supported_names());
  if (file.integer("split.count").value_or(0) > 1) {
    return unimplemented(
        "a GGUF model split over several files is not supported; merge them with llama-gguf-split");
  }

  ModelConfig config;
  config.architecture = *architecture;
  if (const std::string* name = file.string("general.name")) config.name = *name;
  Keys keys(file, *architecture);
  if (keys.integer("expert_count", 0) > 0 && !family->experts.known)
    return unsupported_architecture(concat(*architecture, " with experts"), supported_names());
  keys.refuse_unknown(family->own_keys, family->experts.known);

  const auto embedding =
      std::find_if(file.tensor_list().begin(), file.tensor_list().end(),
                   [](const GgufTensor& tensor) { return tensor.name == "token_embd.weight"; });
  const GgufArray* tokens = file.array("tokenizer.ggml.tokens");
  if (embedding != file.tensor_list().end()) {  // the one that decides: logits have its rows
    config.vocab_size = static_cast<std::int32_t>(
        std::min<std::int64_t>(embedding->shape.front(), std::numeric_limits<std::int32_t>::max()));
  } else {
    config.vocab_size =
        keys.integer("vocab_size", tokens != nullptr ? static_cast<std::int32_t>(tokens->size()) : 0);
  }
  config.hidden_size = config.embedding_size = keys.integer("embedding_length");
  config.num_layers = keys.integer("block_count");
  config.num_heads = keys.integer("attention.head_count");
  config.num_kv_heads = keys.integer("attention.head_count_kv", config.num_heads);
  config.head_size =
      keys.integer("attention.key_length", config.num_heads > 0 ? config.hidden_size / config.num_heads : 0);
  if (keys.integer("attention.value_length", config.head_size) != config.head_size) {
    keys.fail(unimplemented("value heads of another size than key heads are not supported"));
  }
  config.intermediate_size = keys.has("expert_feed_forward_length") ? keys.integer("feed_forward_length", 0)
                                                                    : keys.integer("feed_forward_length");
  config.max_positions = keys.integer("context_length");
  config.sliding_window = keys.integer("attention.sliding_window", 0);
  const auto causal = file.metadata().find(concat(*architecture, ".attention.causal"));
  if (causal != file.metadata().end() && causal->second == GgufValue(false)) {
    keys.fail(unimplemented("a model without causal attention is not supported"));
  }
  if (file.boolean(concat(*architecture, ".use_parallel_residual")).value_or(false)) {
    keys.fail(
        unimplemented(concat("GGUF option '", *architecture, ".use_parallel_residual' is not supported")));
  }
  config.activation = family->activation;
  config.attention_bias = family->layer_norm || *architecture == "qwen2";
  config.rope_interleaved_rows = family->interleaved_rows;
  if (family->layer_norm) {
    config.norm_eps = keys.number("attention.layer_norm_epsilon");
  } else {
    config.norm_eps = keys.number("attention.layer_norm_rms_epsilon");
    read_rope(keys, config);
  }
  read_special_tokens(file, config);
  if (family->experts.known) read_experts(keys, family->experts, config);
  if (family->read != nullptr) family->read(file, keys, config);
  if (!keys.status().ok()) return keys.status();

  std::map<std::string, std::int64_t> bytes_by_type;
  config.tie_embeddings = true;
  for (const GgufTensor& tensor : file.tensor_list()) {
    bytes_by_type[std::string(tensor.type)] += tensor.bytes;
    if (tensor.name == "output.weight") config.tie_embeddings = false;
  }
  config.weight_type = describe_types(bytes_by_type);
  PAGODA_RETURN_IF_ERROR(finish_config(config));
  return config;
}

}  // namespace pagoda
