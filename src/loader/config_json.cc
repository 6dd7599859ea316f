#include "loader/config_json.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <limits>

#include "base/strings.h"
#include "loader/printable.h"

namespace pagoda {
namespace {

namespace json = boost::json;

struct Architecture {
  std::string_view hf_name;     // of the model with its language head
  std::string_view base_name;   // of the same weights saved without one
  std::string_view model_type;  // transformers' and ours
};
constexpr std::array<Architecture, 6> kArchitectures = {{
    {"LlamaForCausalLM", "LlamaModel", "llama"},
    {"MistralForCausalLM", "MistralModel", "mistral"},
    {"Qwen2ForCausalLM", "Qwen2Model", "qwen2"},
    {"Qwen3ForCausalLM", "Qwen3Model", "qwen3"},
    {"OPTForCausalLM", "OPTModel", "opt"},
    {"GPT2LMHeadModel", "GPT2Model", "gpt2"},
}};
constexpr std::string_view kSupported =
    "LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM, OPTForCausalLM, "
    "GPT2LMHeadModel";

// A value for a message; json::serialize would write 0.5 as 5E-1.
std::string show(const json::value& value) {
  return value.is_double() ? concat(value.get_double()) : printable(json::serialize(value), 60);
}

// Typed access to one JSON object. The first wrong type is kept as status(); reads after it give
// defaults, so that a caller checks once at the end. Null counts as absent unless `has` is asked.
class Fields {
 public:
  Fields(const json::object& object, Status& status) : object_(object), status_(status) {}

  const json::value* find(std::string_view name) const {
    const json::value* value = object_.if_contains(name);
    return value == nullptr || value->is_null() ? nullptr : value;
  }
  bool written(std::string_view name) const { return object_.contains(name); }  // even if null

  std::int32_t integer(std::string_view name, std::int32_t otherwise) {
    const json::value* value = find(name);
    if (value == nullptr) return otherwise;
    const std::optional<std::int32_t> number = to_int32(*value);
    if (!number) fail(name, "an integer");
    return number.value_or(otherwise);
  }
  float number(std::string_view name, float otherwise) {
    const json::value* value = find(name);
    if (value == nullptr) return otherwise;
    if (value->is_number()) return static_cast<float>(value->to_number<double>());
    fail(name, "a number");
    return otherwise;
  }
  bool boolean(std::string_view name, bool otherwise) {
    const json::value* value = find(name);
    if (value == nullptr) return otherwise;
    if (value->is_bool()) return value->get_bool();
    fail(name, "true or false");
    return otherwise;
  }
  std::string string(std::string_view name, std::string_view otherwise) {
    const json::value* value = find(name);
    if (value == nullptr) return std::string(otherwise);
    if (value->is_string()) return std::string(value->get_string());
    fail(name, "a string");
    return std::string(otherwise);
  }
  const json::object* object(std::string_view name) {
    const json::value* value = find(name);
    if (value == nullptr) return nullptr;
    if (!value->is_object()) fail(name, "an object");
    return value->if_object();
  }
  // An integer or a list of integers.
  std::vector<std::int32_t> integers(std::string_view name) {
    std::vector<std::int32_t> out;
    const json::value* value = find(name);
    if (value == nullptr) return out;
    const auto take = [&](const json::value& element) {
      if (const std::optional<std::int32_t> number = to_int32(element)) {
        if (std::find(out.begin(), out.end(), *number) == out.end()) out.push_back(*number);
      } else {
        fail(name, "an integer or a list of integers");
      }
    };
    if (!value->is_array()) {
      take(*value);
    } else if (value->get_array().size() > 4096) {
      fail(name, "a list of at most 4096 integers");
    } else {
      for (const json::value& element : value->get_array()) take(element);
    }
    return out;
  }
  // Refuses the option `name` unless it is absent, null or `harmless`.
  void only(std::string_view name, const json::value& harmless) {
    const json::value* value = find(name);
    if (value == nullptr || *value == harmless || !status_.ok()) return;
    status_ = unimplemented(concat("config.json: '", name, "' = ", show(*value),
                                   " is not supported; supported: ", show(harmless)));
  }

  void fail(std::string_view name, std::string_view expected) {
    if (status_.ok()) status_ = corrupt_data(concat("config.json: '", name, "' must be ", expected));
  }
  void refuse(std::string message) {
    if (status_.ok()) status_ = unimplemented(std::move(message));
  }
  const Status& status() const { return status_; }
  Status& shared_status() { return status_; }

 private:
  static std::optional<std::int32_t> to_int32(const json::value& value) {
    boost::system::error_code error;
    const auto number = value.is_number() ? value.to_number<std::int32_t>(error) : 0;
    if (!value.is_number() || error) return std::nullopt;
    return number;
  }

  const json::object& object_;
  Status& status_;
};

Result<json::value> parse_object(std::string_view text, std::string_view file) {
  boost::system::error_code error;
  json::value value = json::parse(json::string_view(text.data(), text.size()), error);
  if (error) return corrupt_data(concat(file, " is not well-formed JSON: ", error.message()));
  if (!value.is_object()) return corrupt_data(concat(file, " is not a JSON object"));
  return value;
}

// Quotient or 0, which finish_config refuses.
std::int32_t divide(std::int32_t a, std::int32_t b) { return b > 0 ? a / b : 0; }

Result<const Architecture*> find_architecture(Fields& fields) {
  const std::string model_type = fields.string("model_type", "");
  std::string name;
  if (const json::value* list = fields.find("architectures")) {
    if (!list->is_array()) {
      fields.fail("architectures", "a list of strings");
    } else if (!list->get_array().empty()) {
      const json::value& first = list->get_array().front();
      if (first.is_string()) {
        name = first.get_string();
      } else {
        fields.fail("architectures", "a list of strings");
      }
    }
  }
  if (!fields.status().ok()) return fields.status();
  if (name.empty() && model_type.empty()) {
    return corrupt_data("config.json has neither 'architectures' nor 'model_type'");
  }
  for (const Architecture& architecture : kArchitectures) {
    const bool named = name.empty() ? model_type == architecture.model_type
                                    : name == architecture.hf_name || name == architecture.base_name;
    if (!named) continue;
    if (!model_type.empty() && model_type != architecture.model_type) {
      return corrupt_data(concat("config.json: 'architectures' says ", name, " but 'model_type' says '",
                                 printable(model_type), "'"));
    }
    return &architecture;
  }
  return unsupported_architecture(name.empty() ? model_type : name, kSupported);
}

void read_rope(Fields& fields, ModelConfig& config) {
  fields.only("partial_rotary_factor", 1.0);
  config.rotary_size = config.head_size;
  config.rope_theta = fields.number("rope_theta", 10000.0f);

  // transformers 5 writes rope_parameters; a rope_scaling beside it wins there, so it does here.
  std::string_view where = "rope_scaling";
  const json::object* object = fields.object(where);
  if (object == nullptr || object->empty()) {
    where = "rope_parameters";
    object = fields.object(where);
  }
  if (object == nullptr) return;
  Fields rope(*object, fields.shared_status());
  for (const auto& [key, value] : *object) {
    if (value.is_object()) {
      return fields.refuse(concat("config.json: '", where, "' for '", printable(key),
                                  "' layers is not supported; supported: one for all"));
    }
  }
  rope.only("partial_rotary_factor", 1.0);
  config.rope_theta = rope.number("rope_theta", config.rope_theta);
  const std::string type = rope.string("rope_type", rope.string("type", "default"));
  if (type == "default") return;
  if (type != "linear" && type != "llama3") {
    return fields.refuse(concat("config.json: ", where, " type '", printable(type),
                                "' is not supported; supported: default, linear, llama3"));
  }
  const auto required = [&](std::string_view name) {
    if (rope.find(name) == nullptr) fields.fail(concat(where, ".", name), "given");
    return rope.number(name, 1.0f);
  };
  config.rope_factor = required("factor");
  config.rope_scaling = RopeScaling::linear;
  if (type == "llama3") {
    config.rope_scaling = RopeScaling::llama3;
    config.rope_low_freq_factor = required("low_freq_factor");
    config.rope_high_freq_factor = required("high_freq_factor");
    config.rope_original_positions =
        fields.integer("original_max_position_embeddings",
                       rope.integer("original_max_position_embeddings", config.max_positions));
  }
}

// Which layers have windows, where they are written out one by one. False: they are not.
bool read_layer_types(Fields& fields, ModelConfig& config) {
  const json::value* types = fields.find("layer_types");
  if (types == nullptr) return false;
  config.window_layers.clear();
  const json::array* list = types->if_array();
  if (list == nullptr || static_cast<std::int64_t>(list->size()) != config.num_layers) {
    fields.fail("layer_types", "a list with one entry for each layer");
    return true;
  }
  for (const json::value& type : *list) {
    const bool sliding = type == "sliding_attention";
    if (!sliding && type != "full_attention") {
      fields.refuse(concat("config.json: layer type ", show(type),
                           " is not supported; supported: full_attention, sliding_attention"));
    }
    config.window_layers.push_back(sliding);
  }
  return true;
}

// No window at all where no layer has one.
void finish_windows(Fields& fields, ModelConfig& config) {
  const bool any =
      std::find(config.window_layers.begin(), config.window_layers.end(), true) != config.window_layers.end();
  if (any && config.sliding_window == 0) fields.fail("sliding_window", "given for sliding layers");
  if (!any) config.sliding_window = 0;
  if (config.sliding_window == 0) config.window_layers.clear();
}

// A nonsensical number of layers is refused later.
std::int32_t listed_layers(const ModelConfig& config) { return std::clamp(config.num_layers, 0, 4096); }

// Qwen's windows: either "from layer max_window_layers on", or written out per layer.
void read_window_layers(Fields& fields, ModelConfig& config) {
  config.sliding_window = 0;
  if (fields.boolean("use_sliding_window", false)) {
    config.sliding_window = fields.written("sliding_window") ? fields.integer("sliding_window", 0) : 4096;
  }
  const std::int32_t first = fields.integer("max_window_layers", 28);
  if (!read_layer_types(fields, config)) {
    for (std::int32_t layer = 0; layer < listed_layers(config); ++layer)
      config.window_layers.push_back(config.sliding_window > 0 && layer >= first);
  }
  finish_windows(fields, config);
}

// Llama, Mistral, Qwen2 and Qwen3 differ in defaults and in where the window comes from.
void read_llama_like(Fields& fields, ModelConfig& config) {
  const bool llama = config.architecture == "llama", mistral = config.architecture == "mistral";
  const bool qwen = !llama && !mistral;
  config.vocab_size = fields.integer("vocab_size", qwen ? 151936 : 32000);
  config.hidden_size = fields.integer("hidden_size", 4096);
  config.intermediate_size = fields.integer("intermediate_size", llama ? 11008 : mistral ? 14336 : 22016);
  config.num_layers = fields.integer("num_hidden_layers", 32);
  config.num_heads = fields.integer("num_attention_heads", 32);
  const std::int32_t absent_kv_heads = llama ? config.num_heads : mistral ? 8 : 32;
  config.num_kv_heads = fields.integer(
      "num_key_value_heads", fields.written("num_key_value_heads") ? config.num_heads : absent_kv_heads);
  const bool fixed_head = config.architecture == "qwen3" && !fields.written("head_dim");
  config.head_size =
      fields.integer("head_dim", fixed_head ? 128 : divide(config.hidden_size, config.num_heads));
  config.max_positions = fields.integer("max_position_embeddings", llama ? 2048 : mistral ? 131072 : 32768);
  config.norm_eps = fields.number("rms_norm_eps", 1e-6f);
  config.activation = fields.string("hidden_act", "silu");
  config.tie_embeddings = fields.boolean("tie_word_embeddings", false);
  config.attention_bias = fields.boolean("attention_bias", config.architecture == "qwen2");
  config.bos_token_id = fields.written("bos_token_id") ? fields.integer("bos_token_id", -1) : qwen ? -1 : 1;
  if (!fields.written("eos_token_id") && !qwen) config.eos_token_ids = {2};
  read_rope(fields, config);
  if (qwen) {
    read_window_layers(fields, config);
  } else if (mistral) {
    config.sliding_window = fields.written("sliding_window") ? fields.integer("sliding_window", 0) : 4096;
    if (const json::value* types = fields.find("layer_types")) {
      const std::string_view all = config.sliding_window > 0 ? "sliding_attention" : "full_attention";
      const json::array* list = types->if_array();
      if (list == nullptr) return fields.fail("layer_types", "a list of strings");
      for (const json::value& type : *list) {
        if (!type.is_string() || std::string_view(type.get_string()) != all) {
          fields.refuse(
              "config.json: 'layer_types' that differ between layers are not supported for Mistral");
        }
      }
    }
  } else {
    fields.only("sliding_window", nullptr);
  }
}

void read_opt(Fields& fields, ModelConfig& config) {
  config.vocab_size = fields.integer("vocab_size", 50272);
  config.hidden_size = fields.integer("hidden_size", 768);
  config.intermediate_size = fields.integer("ffn_dim", 3072);
  config.num_layers = fields.integer("num_hidden_layers", 12);
  config.num_heads = fields.integer("num_attention_heads", 12);
  config.max_positions = fields.integer("max_position_embeddings", 2048);
  config.embedding_size = fields.integer("word_embed_proj_dim", config.hidden_size);
  config.norm_before = fields.boolean("do_layer_norm_before", true);
  config.final_norm = config.norm_before && !fields.boolean("_remove_final_layer_norm", false);
  config.activation = fields.string("activation_function", "relu");
  config.attention_bias = fields.boolean("enable_bias", true);
  config.tie_embeddings = fields.boolean("tie_word_embeddings", true);
  config.bos_token_id = fields.written("bos_token_id") ? fields.integer("bos_token_id", -1) : 2;
  if (!fields.written("eos_token_id")) config.eos_token_ids = {2};
  if (!fields.written("pad_token_id")) config.pad_token_id = 1;
  fields.only("layer_norm_elementwise_affine", true);
}

void read_gpt2(Fields& fields, ModelConfig& config) {
  config.vocab_size = fields.integer("vocab_size", 50257);
  config.hidden_size = fields.integer("n_embd", 768);
  const std::int64_t inner = fields.integer("n_inner", 0);
  const std::int64_t four_times = std::int64_t{4} * config.hidden_size;
  config.intermediate_size = static_cast<std::int32_t>(
      inner != 0 ? inner : std::min<std::int64_t>(four_times, std::numeric_limits<std::int32_t>::max()));
  config.num_layers = fields.integer("n_layer", 12);
  config.num_heads = fields.integer("n_head", 12);
  config.max_positions = fields.integer("n_positions", 1024);
  config.norm_eps = fields.number("layer_norm_epsilon", 1e-5f);
  config.activation = fields.string("activation_function", "gelu_new");
  config.attention_bias = true;
  config.tie_embeddings = fields.boolean("tie_word_embeddings", true);
  config.bos_token_id = fields.written("bos_token_id") ? fields.integer("bos_token_id", -1) : 50256;
  if (!fields.written("eos_token_id")) config.eos_token_ids = {50256};
  fields.only("scale_attn_weights", true);
  fields.only("scale_attn_by_inverse_layer_idx", false);
  fields.only("add_cross_attention", false);
}

}  // namespace

Result<ModelConfig> parse_config_json(std::string_view text,
                                      std::optional<std::string_view> generation_config) {
  Result<json::value> document = parse_object(text, "config.json");
  if (!document) return document.error();
  Status status;
  Fields fields(document->get_object(), status);
  Result<const Architecture*> architecture = find_architecture(fields);
  if (!architecture) return architecture.error();

  ModelConfig config;
  config.architecture = (*architecture)->model_type;
  if (fields.find("quantization_config") != nullptr) {
    return unimplemented(
        "config.json: 'quantization_config' is not supported; supported: F32, F16 and BF16 weights, or a "
        "GGUF file");
  }
  // Options of relatives that would change the result; no supported architecture has them.
  for (const std::string_view option :
       {"attn_logit_softcapping", "final_logit_softcapping", "logit_scale", "query_pre_attn_scalar",
        "embedding_multiplier", "residual_multiplier", "attention_multiplier", "logits_scaling", "clip_qkv",
        "num_local_experts", "num_experts"}) {
    fields.only(option, nullptr);
  }
  if (config.architecture == "opt") {
    read_opt(fields, config);
  } else if (config.architecture == "gpt2") {
    read_gpt2(fields, config);
  } else {
    read_llama_like(fields, config);
  }
  if (config.architecture == "opt" || config.architecture == "gpt2") {
    config.num_kv_heads = config.num_heads;
    config.head_size = divide(config.hidden_size, config.num_heads);
    if (config.num_heads > 0 && config.hidden_size % config.num_heads != 0) {
      return corrupt_data("config.json: the hidden size is not a multiple of the number of heads");
    }
  }
  if (config.embedding_size == 0) config.embedding_size = config.hidden_size;
  if (fields.written("eos_token_id")) config.eos_token_ids = fields.integers("eos_token_id");
  if (fields.written("pad_token_id")) config.pad_token_id = fields.integer("pad_token_id", -1);

  if (generation_config) {
    Result<json::value> generation = parse_object(*generation_config, "generation_config.json");
    if (!generation) return generation.error();
    Fields more(generation->get_object(), status);
    for (const std::int32_t id : more.integers("eos_token_id")) {
      if (std::find(config.eos_token_ids.begin(), config.eos_token_ids.end(), id) ==
          config.eos_token_ids.end()) {
        config.eos_token_ids.push_back(id);
      }
    }
  }
  if (!status.ok()) return status;
  Result<std::string> activation = normalize_activation(config.activation);
  if (!activation) return activation.error();
  config.activation = *activation;
  PAGODA_RETURN_IF_ERROR(finish_config(config));
  return config;
}

Result<std::string> architecture_of_config_json(std::string_view text) {
  Result<json::value> document = parse_object(text, "config.json");
  if (!document) return document.error();
  const json::object& object = document->get_object();
  if (const json::value* list = object.if_contains("architectures"); list != nullptr && list->is_array()) {
    if (!list->get_array().empty() && list->get_array().front().is_string()) {
      return std::string(list->get_array().front().get_string());
    }
  }
  const json::value* type = object.if_contains("model_type");
  return type != nullptr && type->is_string() ? std::string(type->get_string()) : std::string();
}

}  // namespace pagoda
