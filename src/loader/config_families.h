#pragma once
// How each family writes its config.json. A family is one reader and one line in config_families.cc; readers
// share those for rotation and windows. Options that no reader asked for are refused in config_json.cc. Of
// loader/ alone.
#include <span>
#include <string>
#include <string_view>

#include "loader/config_fields.h"
#include "loader/model_config.h"

namespace pagoda {

struct ConfigFamily {
  std::string_view hf_name;     // of the model with its language head
  std::string_view base_name;   // of the same weights saved without one
  std::string_view model_type;  // transformers'
  std::string_view name;        // ours
  void (*read)(Fields& fields, ModelConfig& config);
  bool wrapped = false;  // the language model's fields lie in `text_config`
};
std::span<const ConfigFamily> config_families();

void read_llama_like(Fields& fields, ModelConfig& config);
void read_gemma3(Fields& fields, ModelConfig& config);
void read_granite(Fields& fields, ModelConfig& config);
void read_olmo2(Fields& fields, ModelConfig& config);
void read_phi3(Fields& fields, ModelConfig& config);
void read_smollm3(Fields& fields, ModelConfig& config);
void read_qwen2_moe(Fields& fields, ModelConfig& config);
void read_qwen3_moe(Fields& fields, ModelConfig& config);
void read_mixtral(Fields& fields, ModelConfig& config);
void read_opt(Fields& fields, ModelConfig& config);
void read_gpt2(Fields& fields, ModelConfig& config);

// What transformers gives to fields that are absent.
struct Defaults {
  std::int32_t vocab_size, hidden_size, intermediate_size, num_layers, num_heads;
  std::int32_t num_kv_heads;  // 0: as many as num_heads
  std::int32_t max_positions;
  float norm_eps, rope_theta;
  std::int32_t bos, eos, pad;  // -1: none
  bool tied;
};
// The fields that most families have under the same names, rotation among them.
void read_common(Fields& fields, const Defaults& absent, ModelConfig& config);

// head_size is known. Rotation of all layers, or of those that attend to all.
void read_rope(Fields& fields, ModelConfig& config, float default_theta = 10000.0f);
// One such object, which `fields` has under the name `where`.
void read_rope_object(Fields& fields, Fields& rope, std::string_view where, ModelConfig& config);
// num_layers is known. Which layers have windows, where they are written out one by one; false: they are not.
bool read_layer_types(Fields& fields, ModelConfig& config);
// No window at all where no layer has one.
void finish_windows(Fields& fields, ModelConfig& config);
// A nonsensical number of layers is refused later.
std::int32_t listed_layers(const ModelConfig& config);

}  // namespace pagoda
