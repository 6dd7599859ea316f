#include "loader/mistral_folder.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <optional>
#include <span>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "loader/json_object.h"
#include "loader/printable.h"

namespace pagoda {
namespace {

namespace json = boost::json;

struct Alias {
  std::string_view mistral, hugging_face;
};

// Fields of params.json with another name in config.json; the others have the same name in both.
constexpr auto kFields = std::to_array<Alias>({{"dim", "hidden_size"},
                                               {"n_layers", "num_hidden_layers"},
                                               {"n_heads", "num_attention_heads"},
                                               {"n_kv_heads", "num_key_value_heads"},
                                               {"hidden_dim", "intermediate_size"},
                                               {"norm_eps", "rms_norm_eps"},
                                               {"activation", "hidden_act"},
                                               {"tied_embeddings", "tie_word_embeddings"}});
constexpr auto kYarnFields =
    std::to_array<Alias>({{"factor", "factor"},
                          {"original_max_position_embeddings", "original_max_position_embeddings"},
                          {"beta", "beta_fast"},
                          {"alpha", "beta_slow"}});
constexpr auto kExpertFields = std::to_array<Alias>(
    {{"num_experts", "num_local_experts"}, {"num_experts_per_tok", "num_experts_per_tok"}});

constexpr auto kRequired = std::to_array<std::string_view>(
    {"dim", "n_layers", "n_heads", "n_kv_heads", "hidden_dim", "norm_eps", "vocab_size"});

// Fields that are read below, or concern other parts than the language model, or how it is run.
constexpr auto kReadApart = std::to_array<std::string_view>(
    {"model_type", "max_position_embeddings", "max_seq_len", "max_batch_size", "sliding_window",
     "_sliding_window", "rope_theta", "yarn", "llama_4_scaling", "moe", "quantization", "vision_encoder",
     "multimodal"});

// A model with one of these fields has another mixer or another norm.
constexpr auto kOtherParts = std::to_array<std::string_view>(
    {"q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "ada_rms_norm_t_cond"});

constexpr std::int64_t kUsualPositions = 128'000;  // vLLM's value if a file does not say

template <std::size_t size>
bool is_one_of(const std::array<std::string_view, size>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

Status bad_field(std::string_view name, std::string_view expected) {
  return corrupt_data(concat(kMistralConfig, ": '", name, "' must be ", expected));
}

Status other_part(std::string_view name) {
  return unimplemented(concat(kMistralConfig, ": '", printable(name, 60),
                              "' is not supported in Mistral's own form; a folder of the same model with "
                              "config.json, or a .gguf file, may be"));
}

bool is_unused(const json::value& value) { return value.is_null() || value == false || value == 0; }

// Returns null if the field is absent or null.
const json::value* field(const json::object& object, std::string_view name) {
  const json::value* const value = object.if_contains(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

// Returns null if the field is absent or null. A value that is not an object is an error.
Result<const json::object*> object_field(const json::object& object, std::string_view name) {
  const json::value* const value = field(object, name);
  if (value != nullptr && !value->is_object()) return bad_field(name, "an object");
  return value == nullptr ? nullptr : value->if_object();
}

void copy_fields(const json::object& from, std::span<const Alias> aliases, json::object& to) {
  for (const Alias& alias : aliases)
    if (const json::value* const value = field(from, alias.mistral)) to[alias.hugging_face] = *value;
}

std::string_view name_in_config(std::string_view name) {
  const auto alias = std::ranges::find(kFields, name, &Alias::mistral);
  return alias == kFields.end() ? name : alias->hugging_face;
}

std::optional<std::int64_t> integer_of_field(const json::object& object, std::string_view name) {
  const json::value* const value = field(object, name);
  return value != nullptr && value->is_int64() ? std::optional(value->get_int64()) : std::nullopt;
}

// One window for all layers, or a repeating list of windows, in which null means no window.
Status set_windows(const json::object& params, json::object& config) {
  const json::value* window = field(params, "sliding_window");
  if (window == nullptr) window = field(params, "_sliding_window");
  config["sliding_window"] = window == nullptr || window->is_array() ? json::value() : *window;
  if (window == nullptr || !window->is_array()) return ok_status();
  const json::array& period = window->get_array();
  const std::int64_t layers = integer_of_field(params, "n_layers").value_or(0);
  constexpr std::int64_t kMaxLayers = 4096;
  if (period.empty() || layers < 1 || layers > kMaxLayers || layers % std::ssize(period) != 0)
    return bad_field("sliding_window", "a list that repeats in all layers");
  json::array types;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const json::value& size = period[static_cast<std::size_t>(layer % std::ssize(period))];
    types.emplace_back(size.is_null() ? "full_attention" : "sliding_attention");
    if (size.is_null()) continue;
    if (!config["sliding_window"].is_null() && config["sliding_window"] != size)
      return other_part("sliding_window of several sizes");
    config["sliding_window"] = size;
  }
  config["layer_types"] = std::move(types);
  config["model_type"] = "ministral";
  return ok_status();
}

Status set_rotation(const json::object& params, json::object& config) {
  const json::value* const theta = field(params, "rope_theta");
  if (theta != nullptr)
    config["rope_theta"] = *theta;
  else
    config["rope_theta"] = config["sliding_window"].is_null() ? 1e6 : 1e4;  // as in mistral-inference
  PAGODA_ASSIGN_OR_RETURN(const json::object* const yarn, object_field(params, "yarn"));
  PAGODA_ASSIGN_OR_RETURN(const json::object* const scaling, object_field(params, "llama_4_scaling"));
  if (yarn == nullptr && scaling != nullptr) return other_part("llama_4_scaling without yarn");
  if (yarn == nullptr) return ok_status();
  json::object rope = {{"rope_type", "yarn"}, {"rope_theta", config["rope_theta"]}};
  copy_fields(*yarn, kYarnFields, rope);
  // Without it, the factor implies no scale of cosines and sines.
  if (const json::value* const scale = field(*yarn, "apply_scale"); scale != nullptr && *scale == false)
    rope["attention_factor"] = 1.0;
  if (scaling != nullptr) {
    const std::string_view positions = "original_max_position_embeddings";
    if (integer_of_field(*scaling, positions) != integer_of_field(*yarn, positions))
      return other_part("llama_4_scaling from another position than yarn");
    if (field(*scaling, "beta") == nullptr) return bad_field("llama_4_scaling.beta", "given");
    rope["llama_4_scaling_beta"] = *field(*scaling, "beta");
    config["model_type"] = "ministral3";
  }
  config["rope_parameters"] = std::move(rope);
  return ok_status();
}

Status set_experts(const json::object& params, json::object& config) {
  PAGODA_ASSIGN_OR_RETURN(const json::object* const experts, object_field(params, "moe"));
  if (experts == nullptr) return ok_status();
  for (const auto& [name, value] : *experts) {
    const bool known =
        std::ranges::find(kExpertFields, std::string_view(name), &Alias::mistral) != kExpertFields.end();
    const bool of_training = name == "expert_parallel" || name == "expert_model_parallel";
    if (!known && !of_training && !is_unused(value) && !(name == "route_every_n" && value == 1))
      return other_part(concat("moe.", std::string_view(name)));
  }
  if (config.contains("layer_types") || config["model_type"] == "ministral3")
    return other_part("moe beside windows in some layers or llama_4_scaling");
  copy_fields(*experts, kExpertFields, config);
  config["model_type"] = "mixtral";
  return ok_status();
}

Status set_quantization(const json::object& params, json::object& config) {
  PAGODA_ASSIGN_OR_RETURN(const json::object* const how, object_field(params, "quantization"));
  if (how == nullptr || how->empty()) return ok_status();
  const json::value* const number = field(*how, "qformat_weight");
  if (number == nullptr) {
    config["quantization_config"] = *how;  // in compressed-tensors' form
    return ok_status();
  }
  if (*number != "fp8_e4m3") return other_part("quantization.qformat_weight");
  const json::value* const inputs = field(*how, "qscheme_act");
  const bool by_row = inputs != nullptr && *inputs == "NO_SCALES";
  if (inputs != nullptr && !by_row && *inputs != "TENSOR") return other_part("quantization.qscheme_act");
  config["quantization_config"] = {{"quant_method", "fp8"},
                                   {"activation_scheme", by_row ? "dynamic" : "static"}};
  return ok_status();
}

// The suffix of a name after the module: ".weight" and, for 8-bit weights, scales.
std::string hugging_face_end(std::string_view end) {
  if (end == ".qscale_weight") return ".weight_scale";
  return end == ".qscale_act" ? ".input_scale" : std::string(end);
}

// Modules of a layer, and modules outside of layers.
constexpr auto kModules = std::to_array<Alias>({{"attention.wq", "self_attn.q_proj"},
                                                {"attention.wk", "self_attn.k_proj"},
                                                {"attention.wv", "self_attn.v_proj"},
                                                {"attention.wo", "self_attn.o_proj"},
                                                {"attention_norm", "input_layernorm"},
                                                {"ffn_norm", "post_attention_layernorm"},
                                                {"feed_forward.w1", "mlp.gate_proj"},
                                                {"feed_forward.w2", "mlp.down_proj"},
                                                {"feed_forward.w3", "mlp.up_proj"},
                                                {"feed_forward.gate", "block_sparse_moe.gate"}});
constexpr auto kOuterModules = std::to_array<Alias>(
    {{"tok_embeddings", "model.embed_tokens"}, {"norm", "model.norm"}, {"output", "lm_head"}});
// Scales of 8-bit keys and values.
constexpr auto kCacheScales =
    std::to_array<Alias>({{"attention.q_fake_quantizer.qscale_act", "self_attn.q_scale"},
                          {"attention.k_fake_quantizer.qscale_act", "self_attn.k_scale"},
                          {"attention.v_fake_quantizer.qscale_act", "self_attn.v_scale"},
                          {"attention.kv_fake_quantizer.qscale_act", "self_attn.kv_scale"}});
// Prefixes of the embedding in models with audio.
constexpr auto kWrappers =
    std::to_array<std::string_view>({"mm_whisper_embeddings.", "mm_streams_embeddings.embedding_module."});

std::optional<std::string> renamed_module(std::string_view name, std::span<const Alias> modules) {
  const std::size_t dot = name.rfind('.');
  if (dot == name.npos) return std::nullopt;
  const auto module = std::ranges::find(modules, name.substr(0, dot), &Alias::mistral);
  if (module == modules.end()) return std::nullopt;
  return concat(module->hugging_face, hugging_face_end(name.substr(dot)));
}

// Renames e.g. "experts.3.w1.weight": Mixtral uses these names of the three matrices in both forms.
std::optional<std::string> renamed_expert(std::string_view name) {
  constexpr std::string_view kBefore = "feed_forward.experts.";
  const std::size_t dot = name.rfind('.');
  if (!name.starts_with(kBefore) || dot == name.npos) return std::nullopt;
  return concat("block_sparse_moe.experts.", name.substr(kBefore.size(), dot - kBefore.size()),
                hugging_face_end(name.substr(dot)));
}

std::optional<std::string> renamed_in_layer(std::string_view name) {
  const auto scale = std::ranges::find(kCacheScales, name, &Alias::mistral);
  if (scale != kCacheScales.end()) return std::string(scale->hugging_face);
  if (auto module = renamed_module(name, kModules)) return module;
  return renamed_expert(name);
}

}  // namespace

Result<std::string> config_of_mistral_params(std::string_view text) {
  PAGODA_ASSIGN_OR_RETURN(const json::object params, parse_json_object(text, kMistralConfig));
  if (const json::value* const type = field(params, "model_type"); type != nullptr && *type != "transformer")
    return other_part(concat("model_type ", json::serialize(*type)));
  for (const std::string_view name : kOtherParts)
    if (const json::value* const value = field(params, name); value != nullptr && !is_unused(*value))
      return other_part(name);
  for (const std::string_view name : kRequired)
    if (field(params, name) == nullptr) return bad_field(name, "given");
  json::object config = {{"model_type", "mistral"}};
  for (const auto& [name, value] : params)
    if (!value.is_null() && !is_one_of(kReadApart, name)) config[name_in_config(name)] = value;
  std::int64_t positions = integer_of_field(params, "max_position_embeddings").value_or(kUsualPositions);
  if (const auto length = integer_of_field(params, "max_seq_len")) positions = std::min(positions, *length);
  config["max_position_embeddings"] = positions;
  PAGODA_RETURN_IF_ERROR(set_windows(params, config));
  PAGODA_RETURN_IF_ERROR(set_rotation(params, config));
  PAGODA_RETURN_IF_ERROR(set_experts(params, config));
  PAGODA_RETURN_IF_ERROR(set_quantization(params, config));
  return json::serialize(config);
}

std::string hugging_face_name(std::string_view name) {
  for (const std::string_view wrapper : kWrappers)
    if (name.starts_with(wrapper))
      if (auto outer = renamed_module(name.substr(wrapper.size()), kOuterModules)) return *std::move(outer);
  if (auto outer = renamed_module(name, kOuterModules)) return *std::move(outer);
  constexpr std::string_view kLayers = "layers.";
  const std::size_t dot = name.starts_with(kLayers) ? name.find('.', kLayers.size()) : name.npos;
  if (dot != name.npos)
    if (const auto inner = renamed_in_layer(name.substr(dot + 1)))
      return concat("model.", name.substr(0, dot + 1), *inner);
  return std::string(name);
}

Result<StoredTensors> with_hugging_face_names(const StoredTensors& stored) {
  StoredTensors out;
  for (const auto& [name, tensor] : stored) {
    FileTensor renamed = tensor;
    renamed.name = hugging_face_name(name);
    std::string key = renamed.name;
    if (!out.emplace(std::move(key), std::move(renamed)).second)
      return corrupt_data(concat("tensor '", printable(name), "' is there under two names"));
  }
  return out;
}

AlternatingRows alternating_rows(std::string_view config, const StoredTensors& renamed) {
  AlternatingRows out;
  const auto read = parse_json_object(config, kMistralConfig);
  if (!read) return out;  // the error is reported when the model is read
  const std::int64_t heads = integer_of_field(*read, "num_attention_heads").value_or(0);
  const std::int64_t width = integer_of_field(*read, "hidden_size").value_or(0);
  const std::int64_t head_size = integer_of_field(*read, "head_dim").value_or(heads > 0 ? width / heads : 0);
  for (const auto& [name, tensor] : renamed)
    if (name.starts_with("model.layers.") &&
        (name.ends_with(".self_attn.q_proj.weight") || name.ends_with(".self_attn.k_proj.weight")))
      out.emplace(name, head_size);
  return out;
}

}  // namespace pagoda
