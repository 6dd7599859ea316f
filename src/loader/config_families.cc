#include "loader/config_families.h"

#include <algorithm>
#include <array>

namespace pagoda {

std::span<const ConfigFamily> config_families() {
  static constexpr std::array all = {
#define CONFIG_FAMILY(hf_name, base_name, model_type, name, read, ...) \
  ConfigFamily{hf_name, base_name, model_type, name, read __VA_OPT__(, ) __VA_ARGS__},
#include "loader/config_families.def"
#undef CONFIG_FAMILY
  };
  return all;
}

namespace {
bool family_has_chunks(const ModelConfig& config) { return config.architecture == "llama4"; }
}  // namespace

std::int32_t read_optional_window(Fields& fields) {
  const std::int32_t window = fields.written("sliding_window") ? fields.integer("sliding_window", 0) : 4096;
  return fields.boolean("use_sliding_window", false) ? window : 0;
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
    const bool sliding =
        type == "sliding_attention" || (type == "chunked_attention" && family_has_chunks(config));
    if (!sliding && type != "full_attention" && type != "attention") {
      fields.refuse(concat("config.json: layer type ", show(type),
                           " is not supported; supported: full_attention, sliding_attention"));
    }
    config.window_layers.push_back(sliding);
  }
  return true;
}

void read_window_pattern(Fields& fields, ModelConfig& config, std::int32_t period) {
  if (!read_layer_types(fields, config)) {
    period = fields.integer("sliding_window_pattern", fields.integer("_sliding_window_pattern", period));
    if (period < 1) return fields.fail("sliding_window_pattern", "a positive integer");
    for (std::int32_t layer = 0; layer < listed_layers(config); ++layer)
      config.window_layers.push_back((layer + 1) % period != 0);
  }
  finish_windows(fields, config);
}

void finish_windows(Fields& fields, ModelConfig& config) {
  const bool any =
      std::find(config.window_layers.begin(), config.window_layers.end(), true) != config.window_layers.end();
  if (any && config.sliding_window == 0) fields.fail("sliding_window", "given for sliding layers");
  if (!any) config.sliding_window = 0;
  if (config.sliding_window == 0) config.window_layers.clear();
}

void rotate_with_windows(ModelConfig& config) {
  config.rope_layers = config.window_layers;
  if (config.rope_layers.empty())
    config.rope_layers.assign(static_cast<std::size_t>(listed_layers(config)), false);
}

std::int32_t listed_layers(const ModelConfig& config) { return std::clamp(config.num_layers, 0, 4096); }

}  // namespace pagoda
