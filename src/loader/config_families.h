#pragma once
// How each family writes its config.json. A family is one reader and one line in config_families.def; readers
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
  bool mxfp4 = false;  // its experts may be stored so
};
std::span<const ConfigFamily> config_families();

// A model that also sees or hears, of which the language model is run (config_wrappers.cc).
struct ConfigWrapper {
  std::string_view class_name;  // "Gemma3ForConditionalGeneration", also named "Gemma3Model"
  std::string_view model_type;
  std::string_view text_type;  // model_type of the language model where config.json does not say it
};
std::span<const ConfigWrapper> config_wrappers();
bool names_wrapper(std::string_view name, const ConfigWrapper& wrapper);
// The object that has the language model's fields apart from the rest; null: there is none.
const json::object* language_part(const json::object& config);
json::object* language_part(json::object& config);

using ReadConfig = void(Fields& fields, ModelConfig& config);
#define CONFIG_FAMILY(hf_name, base_name, model_type, name, read, ...) ReadConfig read;
#include "loader/config_families.def"
#undef CONFIG_FAMILY

// What transformers gives to fields that are absent.
struct Defaults {
  std::int32_t vocab_size, hidden_size, intermediate_size, num_layers, num_heads;
  std::int32_t num_kv_heads;  // 0: as many as num_heads
  std::int32_t max_positions;
  float norm_eps, rope_theta;
  std::int32_t bos, eos, pad;  // -1: none
  bool tied;
  std::int32_t head_size = 0;  // 0: the hidden size's share
  float partial = 0;           // of a head that is rotated; 0: all of it, whatever the file
  float local_theta = 0;       // of layers with windows, where they have one of their own
  std::string_view eps_name = "rms_norm_eps", activation = "silu";
};
// The fields that most families have under the same names, rotation among them.
void read_common(Fields& fields, const Defaults& absent, ModelConfig& config);

// Mixtures as DeepSeek's: a score and perhaps a correction, groups, shared experts, and dense layers first.
struct DeepSeekDefaults {
  std::int32_t count, per_token, shared, dense;
  bool renormalize;
  std::int32_t groups = 1, groups_used = 1;
  ExpertScore score = ExpertScore::sigmoid;
  std::int32_t intermediate = 1408;  // of an expert
};
void read_deepseek_like(Fields& fields, const DeepSeekDefaults& absent, ModelConfig& config);

// head_size is known. Rotation of all layers, or of those that attend to all.
void read_rope(Fields& fields, ModelConfig& config, float default_theta = 10000.0f,
               float default_partial = 0);
// The same where layers with windows have one of their own.
void read_rope_by_layer(Fields& fields, ModelConfig& config, float default_theta, float default_local_theta,
                        float default_partial = 0);
// One such object, which `fields` has under the name `where`.
void read_rope_object(Fields& fields, Fields& rope, std::string_view where, ModelConfig& config,
                      bool may_be_partial = false);
// Qwen's window, which the file may name and leave unused; 0: there is none.
std::int32_t read_optional_window(Fields& fields);
// num_layers is known. Which layers have windows, where they are written out one by one; false: they are not.
bool read_layer_types(Fields& fields, ModelConfig& config);
// sliding_window is known. Which layers have it: written out, or all but every `period`-th.
void read_window_pattern(Fields& fields, ModelConfig& config, std::int32_t period);
// No window at all where no layer has one.
void finish_windows(Fields& fields, ModelConfig& config);
// Layers without a window do not rotate, even where none has one. After finish_windows.
void rotate_with_windows(ModelConfig& config);
// window_layers is known. "layer_rope_theta": one base for layers with a window and one for the others; 0:
// such a layer does not rotate.
void read_layer_thetas(Fields& fields, ModelConfig& config);
// num_layers is known. Which layers have a mixture: "mlp_layer_types", or all behind the first `dense`.
void read_mlp_types(Fields& fields, std::int32_t dense, ModelConfig& config);
// num_layers is known. Layers of which every `step`-th has a mixture, but for those named.
void read_sparse_layers(Fields& fields, ModelConfig& config);
// A nonsensical number of layers is refused later.
std::int32_t listed_layers(const ModelConfig& config);

}  // namespace pagoda
