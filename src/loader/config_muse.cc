// config.json of Muse Glimmer's text part: the last of each four layers sees everything and does not rotate.
#include <cmath>

#include "loader/config_families.h"

namespace pagoda {

void read_muse_glimmer(Fields& fields, ModelConfig& config) {
  Defaults absent = {202048, 6656, 19968, 52, 32, 2, 131072, 1e-5f, 10000.0f, 200000, 200001, -1, false, 128};
  read_common(fields, absent, config);
  config.activation = fields.string("hidden_activation", "silu");
  config.norm_weight_offset = 1;
  config.branch_norm_eps = fields.number("post_norm_eps", 1e-8f);
  config.logit_scale = fields.number("output_multiplier", 0.19611613513818404f);
  config.logit_softcap = fields.number("final_logit_softcapping", 20);
  config.attention_scale =
      fields.number("qk_scale_factor", 3.87f) / std::sqrt(static_cast<float>(config.head_size));
  config.sliding_window = fields.integer("sliding_window", 2048);
  const auto sees_all = [&](std::int32_t layer) { return (config.num_layers - 1 - layer) % 4 == 0; };
  if (!read_layer_types(fields, config))
    for (std::int32_t layer = 0; layer < listed_layers(config); ++layer)
      config.window_layers.push_back(!sees_all(layer));
  if (fields.find("layer_rope_theta") != nullptr) {
    read_layer_thetas(fields, config);
  } else {
    for (std::int32_t layer = 0; layer < listed_layers(config); ++layer)
      config.rope_layers.push_back(!sees_all(layer));
  }
  finish_windows(fields, config);
}

}  // namespace pagoda
