#include "loader/config_families.h"

#include <algorithm>
#include <array>

namespace pagoda {

std::span<const ConfigFamily> config_families() {
  static constexpr std::array<ConfigFamily, 15> all = {{
      {"LlamaForCausalLM", "LlamaModel", "llama", "llama", read_llama_like},
      {"MistralForCausalLM", "MistralModel", "mistral", "mistral", read_llama_like},
      {"Qwen2ForCausalLM", "Qwen2Model", "qwen2", "qwen2", read_llama_like},
      {"Qwen3ForCausalLM", "Qwen3Model", "qwen3", "qwen3", read_llama_like},
      {"Qwen2MoeForCausalLM", "Qwen2MoeModel", "qwen2_moe", "qwen2moe", read_qwen2_moe},
      {"Qwen3MoeForCausalLM", "Qwen3MoeModel", "qwen3_moe", "qwen3moe", read_qwen3_moe},
      {"MixtralForCausalLM", "MixtralModel", "mixtral", "mixtral", read_mixtral},
      {"Gemma3ForCausalLM", "Gemma3TextModel", "gemma3_text", "gemma3", read_gemma3},
      {"Gemma3ForConditionalGeneration", "Gemma3Model", "gemma3", "gemma3", read_gemma3, true},
      {"GraniteForCausalLM", "GraniteModel", "granite", "granite", read_granite},
      {"Olmo2ForCausalLM", "Olmo2Model", "olmo2", "olmo2", read_olmo2},
      {"Phi3ForCausalLM", "Phi3Model", "phi3", "phi3", read_phi3},
      {"SmolLM3ForCausalLM", "SmolLM3Model", "smollm3", "smollm3", read_smollm3},
      {"OPTForCausalLM", "OPTModel", "opt", "opt", read_opt},
      {"GPT2LMHeadModel", "GPT2Model", "gpt2", "gpt2", read_gpt2},
  }};
  return all;
}

void read_rope_object(Fields& fields, Fields& rope, std::string_view where, ModelConfig& config) {
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

void read_rope(Fields& fields, ModelConfig& config, float default_theta) {
  fields.only("partial_rotary_factor", 1.0);
  config.rotary_size = config.head_size;
  config.rope_theta = fields.number("rope_theta", default_theta);

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
  read_rope_object(fields, rope, where, config);
}
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

void finish_windows(Fields& fields, ModelConfig& config) {
  const bool any =
      std::find(config.window_layers.begin(), config.window_layers.end(), true) != config.window_layers.end();
  if (any && config.sliding_window == 0) fields.fail("sliding_window", "given for sliding layers");
  if (!any) config.sliding_window = 0;
  if (config.sliding_window == 0) config.window_layers.clear();
}

std::int32_t listed_layers(const ModelConfig& config) { return std::clamp(config.num_layers, 0, 4096); }

}  // namespace pagoda
