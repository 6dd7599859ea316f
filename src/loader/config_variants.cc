// config.json of families that are Llama but for one or two things.
#include <algorithm>
#include <cmath>

#include "loader/config_families.h"

namespace pagoda {

void read_common(Fields& fields, const Defaults& absent, ModelConfig& config) {
  config.vocab_size = fields.integer("vocab_size", absent.vocab_size);
  config.hidden_size = fields.integer("hidden_size", absent.hidden_size);
  config.intermediate_size = fields.integer("intermediate_size", absent.intermediate_size);
  config.num_layers = fields.integer("num_hidden_layers", absent.num_layers);
  config.num_heads = fields.integer("num_attention_heads", absent.num_heads);
  const bool given = fields.written("num_key_value_heads") || absent.num_kv_heads == 0;
  config.num_kv_heads = fields.integer("num_key_value_heads", given ? config.num_heads : absent.num_kv_heads);
  const bool fixed_head = absent.head_size > 0 && !fields.written("head_dim");
  config.head_size = fields.integer(
      "head_dim", fixed_head ? absent.head_size : divide(config.hidden_size, config.num_heads));
  config.max_positions = fields.integer("max_position_embeddings", absent.max_positions);
  config.norm_eps = fields.number(absent.eps_name, absent.norm_eps);
  config.activation = fields.string("hidden_act", absent.activation);
  config.tie_embeddings = fields.boolean("tie_word_embeddings", absent.tied);
  config.attention_bias = fields.boolean("attention_bias", false);
  config.bos_token_id = fields.written("bos_token_id") ? fields.integer("bos_token_id", -1) : absent.bos;
  config.pad_token_id = absent.pad;
  if (absent.eos >= 0) config.eos_token_ids = {absent.eos};
  if (absent.local_theta > 0)
    read_rope_by_layer(fields, config, absent.rope_theta, fields.number("rope_theta", absent.local_theta),
                       absent.partial);
  else
    read_rope(fields, config, absent.rope_theta, absent.partial);
}

namespace {

void read_granite_scales(Fields& fields, ModelConfig& config) {
  config.embedding_scale = fields.number("embedding_multiplier", 1);
  config.residual_scale = fields.number("residual_multiplier", 1);
  config.attention_scale = fields.number("attention_multiplier", 1);
  config.logit_scale = 1 / fields.number("logits_scaling", 1);
}

}  // namespace

void read_layer_thetas(Fields& fields, ModelConfig& config) {
  const std::vector<float> thetas = fields.numbers("layer_rope_theta");
  if (thetas.size() != config.window_layers.size())
    return fields.fail("layer_rope_theta", "a number for each layer");
  float of_kind[2] = {0, 0};  // without and with a window
  for (std::size_t layer = 0; layer < thetas.size(); ++layer) {
    config.rope_layers.push_back(thetas[layer] != 0);
    if (thetas[layer] == 0) continue;
    float& theta = of_kind[config.window_layers[layer] ? 1 : 0];
    if (theta != 0 && theta != thetas[layer])
      return fields.refuse(
          "config.json: 'layer_rope_theta' that differs among layers with a window, or among those without, "
          "is "
          "not supported");
    theta = thetas[layer];
  }
  if (std::ranges::find(config.rope_layers, false) == config.rope_layers.end()) config.rope_layers.clear();
  const auto [full, local] = of_kind;
  if (full != 0 && local != 0 && full != local) {
    config.rope_local_theta = local;
    if (config.rope_scaling != RopeScaling::none)
      fields.refuse("config.json: a scaled rotation with two bases in 'layer_rope_theta' is not supported");
  }
  if (full != 0 || local != 0) config.rope_theta = full != 0 ? full : local;
}

void read_granite(Fields& fields, ModelConfig& config) {
  read_common(fields, {32000, 4096, 11008, 32, 32, 0, 2048, 1e-6f, 10000.0f, 1, 2, -1, false}, config);
  read_granite_scales(fields, config);
}

// Of four layers the first sees everything, the others have a window. Each may rotate by a base of its own,
// or not at all: base 0.
void read_granite_swa(Fields& fields, ModelConfig& config) {
  read_common(fields, {100352, 2560, 8192, 24, 20, 4, 8192, 1e-5f, 10000.0f, 100257, 100257, -1, true},
              config);
  read_granite_scales(fields, config);
  config.sliding_window = fields.integer("sliding_window", 128);
  if (!read_layer_types(fields, config))
    for (std::int32_t layer = 0; layer < listed_layers(config); ++layer)
      config.window_layers.push_back(layer % 4 != 0);
  if (fields.find("layer_rope_theta") != nullptr) read_layer_thetas(fields, config);
  finish_windows(fields, config);
}

// MiniCPM 1, 2 and 4: the scales follow from the depth, and from the width of the model that was tuned.
void read_minicpm(Fields& fields, ModelConfig& config) {
  read_common(fields, {32000, 4096, 11008, 32, 32, 0, 2048, 1e-6f, 10000.0f, 1, 2, -1, true}, config);
  config.embedding_scale = fields.number("scale_emb", 1);
  if (config.num_layers < 1 || config.hidden_size < 1) return;
  config.residual_scale = fields.number("scale_depth", 1) / std::sqrt(static_cast<float>(config.num_layers));
  config.logit_scale = fields.number("dim_model_base", 1) / static_cast<float>(config.hidden_size);
  fields.only("sparse_config", nullptr);  // of blocks of the context, some alone
}

void read_exaone(Fields& fields, ModelConfig& config) {
  Defaults absent = {102400, 2048, 0, 32, 32, 0, 2048, 1e-5f, 10000.0f, 0, 2, -1, true};
  absent.eps_name = "layer_norm_epsilon";
  read_common(fields, absent, config);
  config.num_layers = fields.integer("num_layers", absent.num_layers);
  config.activation = fields.string("activation_function", "silu");
  if (config.intermediate_size == 0)
    config.intermediate_size = 4 * std::clamp(config.hidden_size, 0, 1 << 24);
}

void read_olmo(Fields& fields, ModelConfig& config) {
  read_olmo2(fields, config);
  config.norm_eps = 1e-5f;
  config.attention_clip = fields.number("clip_qkv", 0);
}

void read_olmo2(Fields& fields, ModelConfig& config) {
  read_common(fields, {50304, 4096, 11008, 32, 32, 0, 2048, 1e-5f, 10000.0f, -1, 50279, 1, false}, config);
}

void read_phi3(Fields& fields, ModelConfig& config) {
  Defaults absent = {32064, 3072, 8192, 32, 32, 0, 4096, 1e-5f, 10000.0f, 1, 32000, 32000, false};
  absent.partial = 1;
  read_common(fields, absent, config);
  config.sliding_window = fields.integer("sliding_window", 0);
  fields.find("original_max_position_embeddings");  // of rotations that have it
}

// Three of four layers have a window; the scaling of the rotation is of the others alone.
void read_olmo3(Fields& fields, ModelConfig& config) {
  Defaults absent = {50304, 4096, 11008, 32, 32, 0, 2048, 1e-5f, 500000.0f, -1, 50279, 1, false};
  absent.local_theta = 500000.0f;
  read_common(fields, absent, config);
  config.sliding_window = fields.integer("sliding_window", 4096);
  read_window_pattern(fields, config, 4);
}

void read_smollm3(Fields& fields, ModelConfig& config) {
  read_common(fields,
              {128256, 2048, 11008, 36, 16, 4, 32768, 1e-6f, 2000000.0f, 128000, 128001, 128004, true},
              config);
  const std::int32_t interval = fields.integer("no_rope_layer_interval", 4);
  if (interval < 1) return fields.fail("no_rope_layer_interval", "a positive integer");
  if (fields.find("no_rope_layers") != nullptr) {
    for (const bool rotates : fields.flags("no_rope_layers", listed_layers(config)))
      config.rope_layers.push_back(rotates);  // 1: rotates, whatever the name says
  } else {
    for (std::int32_t layer = 0; layer < listed_layers(config); ++layer)
      config.rope_layers.push_back((layer + 1) % interval != 0);
  }
  if (!fields.boolean("use_sliding_window", false)) return;
  config.sliding_window = fields.integer("sliding_window", 0);
  if (!read_layer_types(fields, config))
    for (const bool rotates : config.rope_layers) config.window_layers.push_back(!rotates);
  finish_windows(fields, config);
}

void read_ministral3(Fields& fields, ModelConfig& config) {
  read_common(fields, {131072, 4096, 14336, 34, 32, 8, 262144, 1e-5f, 1000000.0f, 1, 2, 11, false, 128},
              config);
  if (fields.object("rope_scaling") == nullptr && fields.object("rope_parameters") == nullptr) {
    config.rope_scaling = RopeScaling::yarn;
    config.rope_factor = 16;
    config.rope_original_positions = config.temperature_positions = 16384;
    config.temperature_beta = 0.1f;
  }
  config.sliding_window = fields.integer("sliding_window", 0);
}

// GLM-4 9B and, with norms on both sides of each half, GLM-4-0414.
void read_glm(Fields& fields, ModelConfig& config) {
  read_common(
      fields,
      {151552, 4096, 13696, 40, 32, 2, 131072, 1.5625e-07f, 10000.0f, -1, -1, 151329, false, 128, 0.5f},
      config);
  config.rope_interleaved_rows = true;
  config.eos_token_ids = {151329, 151336, 151338};
}

// GLM 4's text part of one that sees.
void read_glm4v(Fields& fields, ModelConfig& config) {
  Defaults absent = {151552, 4096, 13696, 40, 32, 2, 32768, 1e-5f, 10000.0f, -1, -1, -1, false};
  absent.partial = 1;
  read_common(fields, absent, config);
  config.rope_interleaved_rows = true;
}

// Rotates where there is a window, or everywhere if there is none.
void read_exaone4(Fields& fields, ModelConfig& config) {
  read_common(fields, {102400, 4096, 16384, 32, 32, 0, 2048, 1e-5f, 10000.0f, 0, 2, -1, false}, config);
  config.sliding_window = fields.written("sliding_window") ? fields.integer("sliding_window", 0) : 4096;
  const bool windows = config.sliding_window > 0;
  const json::value* pattern = fields.find("sliding_window_pattern");
  if (!windows || (pattern != nullptr && pattern->is_string())) {  // "LLLG"
    const std::string_view kinds = windows ? std::string_view(pattern->get_string()) : "G";
    if (!read_layer_types(fields, config)) {
      if (kinds.empty()) return fields.fail("sliding_window_pattern", "not empty");
      for (std::int32_t layer = 0; layer < listed_layers(config); ++layer)
        config.window_layers.push_back(kinds[static_cast<std::size_t>(layer) % kinds.size()] == 'L');
    }
    finish_windows(fields, config);
  } else {
    read_window_pattern(fields, config, 4);
  }
  if (windows) rotate_with_windows(config);
}

void read_seed_oss(Fields& fields, ModelConfig& config) {
  read_common(fields, {155136, 4096, 27648, 64, 80, 8, 524288, 1e-6f, 10000.0f, 0, 2, 1, false, 128}, config);
}

void read_hunyuan(Fields& fields, ModelConfig& config) {
  read_common(fields, {290943, 4096, 11008, 32, 32, 0, 2048, 1e-5f, 10000.0f, 1, 2, 0, false}, config);
}

void read_ernie4_5(Fields& fields, ModelConfig& config) {
  read_common(fields, {103424, 1024, 3072, 18, 16, 2, 131072, 1e-5f, 500000.0f, 1, 2, 0, true, 128}, config);
  config.rope_interleaved_rows = true;
}

void read_internlm2(Fields& fields, ModelConfig& config) {
  read_common(fields, {103168, 4096, 11008, 32, 32, 0, 2048, 1e-6f, 10000.0f, 1, 2, 2, false}, config);
}

void read_internlm3(Fields& fields, ModelConfig& config) {
  read_common(fields, {128512, 4096, 10240, 48, 32, 2, 32768, 1e-5f, 10000.0f, 1, 2, 2, false, 128}, config);
  for (const std::string_view biased : {"qkv_bias", "bias"}) fields.find(biased);  // as the tensors say
}

void read_apertus(Fields& fields, ModelConfig& config) {
  Defaults absent = {131072, 4096, 14336, 32, 32, 0, 65536, 1e-5f, 12000000.0f, 1, 2, 3, false};
  absent.activation = "xielu";
  read_common(fields, absent, config);
  if (fields.object("rope_scaling") == nullptr && fields.object("rope_parameters") == nullptr) {
    config.rope_scaling = RopeScaling::llama3;
    config.rope_factor = 8;
    config.rope_original_positions = 8192;
  }
  if (config.activation != "xielu") fields.refuse("config.json: 'hidden_act' of Apertus can only be 'xielu'");
  config.activation = "silu";  // of no matrix
}

void read_arcee(Fields& fields, ModelConfig& config) {
  Defaults absent = {32000, 2560, 18432, 32, 32, 0, 4096, 1e-5f, 10000.0f, 128000, 128001, -1, false};
  absent.activation = "relu2";
  read_common(fields, absent, config);
}

}  // namespace pagoda
