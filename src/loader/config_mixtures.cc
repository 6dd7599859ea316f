// config.json of families whose layers have mixtures of experts.
#include <algorithm>
#include <cmath>
#include <ranges>

#include "loader/config_families.h"

namespace pagoda {
namespace {

// transformers writes some fields under either of two names.
std::int32_t integer_of(Fields& fields, std::initializer_list<std::string_view> names,
                        std::int32_t otherwise) {
  for (const std::string_view name : names)
    if (fields.find(name) != nullptr) return fields.integer(name, otherwise);
  return otherwise;
}

std::int32_t num_experts(Fields& fields, std::int32_t otherwise) {
  return integer_of(fields, {"num_experts", "num_local_experts", "n_routed_experts"}, otherwise);
}

// An integer, or a list of equal ones, a layer each.
std::int32_t one_of(Fields& fields, std::string_view name, std::int32_t otherwise) {
  const std::vector<std::int32_t> values = fields.integers(name);
  if (values.size() > 1)
    fields.refuse(concat("config.json: '", name, "' that differs between layers is not supported"));
  return values.empty() ? otherwise : values.front();
}

// Several shared experts are one of so many times the width.
std::int32_t shared_size(Fields& fields, std::string_view name, std::int32_t otherwise,
                         const ExpertsConfig& experts) {
  const std::int64_t size = std::int64_t{one_of(fields, name, otherwise)} * experts.intermediate_size;
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(size, -1, 1 << 30));
}

// Windows where the file says so, layer by layer.
void read_listed_windows(Fields& fields, std::int32_t otherwise, ModelConfig& config) {
  config.sliding_window = fields.integer("sliding_window", otherwise);
  if (!read_layer_types(fields, config)) config.sliding_window = 0;
  finish_windows(fields, config);
}

}  // namespace

void read_deepseek_like(Fields& fields, const DeepSeekDefaults& absent, ModelConfig& config) {
  ExpertsConfig& experts = config.experts;
  experts.count = num_experts(fields, absent.count);
  experts.per_token = fields.integer("num_experts_per_tok", absent.per_token);
  experts.intermediate_size = fields.integer("moe_intermediate_size", absent.intermediate);
  experts.shared_intermediate_size = shared_size(fields, "n_shared_experts", absent.shared, experts);
  experts.score = absent.score;
  experts.renormalize = fields.boolean("norm_topk_prob", absent.renormalize);
  experts.scale = fields.number("routed_scaling_factor", 1.0f);
  experts.groups = fields.integer("n_group", absent.groups);
  experts.groups_used = fields.integer("topk_group", absent.groups_used);
  // Of dots.llm1 it has what others call topk_method.
  const bool sigmoid = absent.score == ExpertScore::sigmoid;
  if (!sigmoid || fields.string("scoring_func", "sigmoid") != "noaux_tc")
    fields.only("scoring_func", sigmoid ? "sigmoid" : "softmax");
  const std::int32_t dense = fields.integer("first_k_dense_replace", absent.dense);
  for (std::int32_t layer = 0; layer < listed_layers(config); ++layer)
    experts.layers.push_back(layer >= dense);
}

void read_mlp_types(Fields& fields, std::int32_t dense, ModelConfig& config) {
  constexpr std::string_view kName = "mlp_layer_types";
  const json::value* types = fields.find(kName);
  const json::array* list = types != nullptr ? types->if_array() : nullptr;
  if (types != nullptr && (list == nullptr || static_cast<std::int64_t>(list->size()) != config.num_layers))
    return fields.fail(kName, "a list with one entry for each layer");
  config.experts.layers.clear();
  for (std::int32_t layer = 0; layer < listed_layers(config); ++layer) {
    if (list == nullptr) {
      config.experts.layers.push_back(layer >= dense);
      continue;
    }
    const json::value& type = (*list)[static_cast<std::size_t>(layer)];
    if (type != "dense" && type != "sparse") fields.fail(kName, "\"dense\" or \"sparse\" for each layer");
    config.experts.layers.push_back(type == "sparse");
  }
}

void read_sparse_layers(Fields& fields, ModelConfig& config) {
  const std::int32_t step = fields.integer("decoder_sparse_step", 1);
  const std::vector<std::int32_t> dense = fields.integers("mlp_only_layers");
  if (step < 1) return fields.fail("decoder_sparse_step", "a positive integer");
  for (std::int32_t layer = 0; layer < listed_layers(config); ++layer)
    config.experts.layers.push_back((layer + 1) % step == 0 &&
                                    std::find(dense.begin(), dense.end(), layer) == dense.end());
}

void read_qwen2_moe(Fields& fields, ModelConfig& config) {
  read_common(fields, {151936, 2048, 5632, 24, 16, 16, 32768, 1e-6f, 10000.0f, -1, -1, -1, false}, config);
  config.attention_bias = fields.boolean("qkv_bias", true);
  config.sliding_window = read_optional_window(fields);
  if (config.sliding_window > 0) {
    const std::int32_t with = fields.integer("max_window_layers", 28);
    if (!read_layer_types(fields, config))
      for (std::int32_t layer = 0; layer < listed_layers(config); ++layer)
        config.window_layers.push_back(layer % 2 == 0 && layer < with);
    finish_windows(fields, config);
  }
  ExpertsConfig& experts = config.experts;
  experts.count = num_experts(fields, 60);
  experts.per_token = fields.integer("num_experts_per_tok", 4);
  experts.intermediate_size = fields.integer("moe_intermediate_size", 1408);
  experts.shared_intermediate_size = fields.integer("shared_expert_intermediate_size", 5632);
  experts.shared_gate = true;
  experts.renormalize = fields.boolean("norm_topk_prob", false);
  read_sparse_layers(fields, config);
}

void read_qwen3_moe(Fields& fields, ModelConfig& config) {
  read_common(fields, {151936, 2048, 6144, 24, 32, 4, 32768, 1e-6f, 10000.0f, -1, -1, -1, false}, config);
  config.sliding_window = read_optional_window(fields);  // in all layers
  ExpertsConfig& experts = config.experts;
  experts.count = num_experts(fields, 128);
  experts.per_token = fields.integer("num_experts_per_tok", 8);
  experts.intermediate_size = fields.integer("moe_intermediate_size", 768);
  experts.renormalize = fields.boolean("norm_topk_prob", false);
  read_sparse_layers(fields, config);
}

void read_qwen3_vl_moe(Fields& fields, ModelConfig& config) {
  read_common(fields, {151936, 2048, 5632, 24, 16, 16, 128000, 1e-6f, 500000.0f, -1, -1, -1, true}, config);
  ExpertsConfig& experts = config.experts;
  experts.count = num_experts(fields, 60);
  experts.per_token = fields.integer("num_experts_per_tok", 4);
  experts.intermediate_size = fields.integer("moe_intermediate_size", 1408);
  experts.renormalize = true;
  fields.only("norm_topk_prob", true);
  read_sparse_layers(fields, config);
}

// Qwen3's with windows, which rotate by a base of their own.
void read_mellum(Fields& fields, ModelConfig& config) {
  read_common(fields,
              {98304, 2304, 7168, 28, 32, 4, 131072, 1e-6f, 500000.0f, -1, -1, -1, false, 128, 1, 10000.0f},
              config);
  read_listed_windows(fields, 1024, config);
  ExpertsConfig& experts = config.experts;
  experts.count = num_experts(fields, 64);
  experts.per_token = fields.integer("num_experts_per_tok", 8);
  experts.intermediate_size = fields.integer("moe_intermediate_size", 896);
  experts.renormalize = fields.boolean("norm_topk_prob", true);
  read_mlp_types(fields, 0, config);
  for (const std::string_view draft : {"num_mtp_layers", "mtp_layer_types", "mtp_mlp_layer_types"})
    fields.find(draft);
}

void read_laguna(Fields& fields, ModelConfig& config) {
  read_common(
      fields,
      {100352, 2048, 8192, 40, 48, 8, 131072, 1e-6f, 500000.0f, -1, -1, -1, false, 128, 0.5f, 10000.0f},
      config);
  read_listed_windows(fields, 512, config);
  if (fields.find("num_attention_heads_per_layer") != nullptr) {
    LayerSizes layer = {.num_kv_heads = config.num_kv_heads,
                        .head_size = config.head_size,
                        .intermediate_size = config.intermediate_size};
    for (const float heads : fields.numbers("num_attention_heads_per_layer")) {
      layer.num_heads = static_cast<std::int32_t>(std::clamp(heads, -1.0f, 65536.0f));
      config.layer_sizes.push_back(layer);
    }
    if (config.layer_sizes.empty()) return;  // the list was none
    const auto heads = [](const LayerSizes& each) { return each.num_heads; };
    const auto [least, most] = std::ranges::minmax(config.layer_sizes | std::views::transform(heads));
    config.num_heads = most;
    if (least == most) config.layer_sizes.clear();
  }
  const json::value* gating = fields.find("gating");
  config.head_gates = gating == nullptr || *gating == true || *gating == "per-head";
  if (!config.head_gates && *gating != "per-element")
    fields.refuse(concat("config.json: 'gating' = ", show(*gating),
                         " is not supported; supported: \"per-head\", \"per-element\""));
  ExpertsConfig& experts = config.experts;
  experts.count = num_experts(fields, 256);
  experts.per_token = fields.integer("num_experts_per_tok", 8);
  experts.intermediate_size = fields.integer("moe_intermediate_size", 512);
  experts.shared_intermediate_size = fields.integer("shared_expert_intermediate_size", 512);
  experts.score = ExpertScore::sigmoid;
  experts.renormalize = true;
  experts.scale = fields.number("moe_routed_scaling_factor", 1);
  read_mlp_types(fields, 1, config);
  fields.only("moe_apply_router_weight_on_input", false);
  if (fields.number("moe_router_logit_softcapping", 0) != 0)
    fields.refuse("config.json: 'moe_router_logit_softcapping' is not supported");
}

// Three of four layers have a window, and they alone rotate.
void read_afmoe(Fields& fields, ModelConfig& config) {
  read_common(fields, {200192, 2048, 6144, 32, 16, 0, 16384, 1e-5f, 10000.0f, -1, -1, -1, false, 128},
              config);
  if (fields.boolean("mup_enabled", false))
    config.embedding_scale = std::sqrt(static_cast<float>(config.hidden_size));
  config.sliding_window = fields.integer("sliding_window", 1024);
  read_window_pattern(fields, config, fields.integer("global_attn_every_n_layers", 4));
  rotate_with_windows(config);
  ExpertsConfig& experts = config.experts;
  experts.count = num_experts(fields, 64);
  experts.per_token = fields.integer("num_experts_per_tok", 6);
  experts.intermediate_size = fields.integer("moe_intermediate_size", 1408);
  experts.shared_intermediate_size = shared_size(fields, "num_shared_experts", 2, experts);
  experts.score = ExpertScore::sigmoid;
  experts.renormalize = true;
  experts.scale = fields.number("route_scale", 1);
  const std::int32_t dense = fields.integer("num_dense_layers", 1);
  for (std::int32_t layer = 0; layer < listed_layers(config); ++layer)
    experts.layers.push_back(layer >= dense);
  // As the first files of the family have it beside what they mean.
  fields.only("score_func", "sigmoid");
  fields.only("route_norm", true);
  fields.only("n_group", 1);
  fields.only("topk_group", 1);
  fields.find("num_expert_groups");
  fields.find("num_limited_groups");
  fields.find("load_balance_coeff");
  fields.find("use_grouped_mm");
}

void read_mixtral(Fields& fields, ModelConfig& config) {
  read_common(fields, {32000, 4096, 14336, 32, 32, 8, 131072, 1e-5f, 1000000.0f, 1, 2, -1, false}, config);
  config.sliding_window = fields.integer("sliding_window", 0);
  ExpertsConfig& experts = config.experts;
  experts.count = num_experts(fields, 8);
  experts.per_token = fields.integer("num_experts_per_tok", 2);
  experts.intermediate_size = config.intermediate_size;
  experts.renormalize = true;
}

// A scale of cosines and sines is in the file instead of following from the factors.
void read_phimoe(Fields& fields, ModelConfig& config) {
  read_common(fields, {32064, 4096, 6400, 32, 32, 8, 131072, 1e-5f, 1000000.0f, 1, 2, -1, false}, config);
  config.sliding_window = fields.integer("sliding_window", 0);
  if (config.rope_scaling == RopeScaling::longrope) {
    const json::object* scaling = fields.object("rope_scaling");
    if (scaling == nullptr || scaling->empty()) scaling = fields.object("rope_parameters");
    Fields rope(*scaling, fields.shared_status());
    config.rope_attention_factor = rope.number("short_mscale", config.rope_attention_factor);
    if (rope.number("long_mscale", config.rope_attention_factor) != config.rope_attention_factor)
      fields.refuse("config.json: 'long_mscale' other than 'short_mscale' is not supported");
  }
  ExpertsConfig& experts = config.experts;
  experts.count = num_experts(fields, 16);
  experts.per_token = 2;
  fields.only("num_experts_per_tok", 2);
  experts.intermediate_size = config.intermediate_size;
  experts.score = ExpertScore::sparse_mixer;
  experts.near = 2 * fields.number("router_jitter_noise", 0.01f);
  for (const std::string_view other :
       {"input_jitter_noise", "lm_head_bias", "original_max_position_embeddings"})
    fields.find(other);  // of training; as the tensors say; beside the scaling
}

void read_gpt_oss(Fields& fields, ModelConfig& config) {
  Defaults absent = {201088, 2880, 2880, 36, 64, 8, 131072, 1e-5f, 150000.0f, -1, -1, -1, false, 64};
  read_common(fields, absent, config);
  if (fields.object("rope_scaling") == nullptr && fields.object("rope_parameters") == nullptr) {
    config.rope_scaling = RopeScaling::yarn;
    config.rope_factor = 32;
    config.rope_original_positions = 4096;
    config.rope_truncate = false;
    config.rope_attention_factor = 0.1f * std::log(32.0f) + 1;
  }
  config.sliding_window = fields.integer("sliding_window", 128);
  if (!read_layer_types(fields, config))
    for (std::int32_t layer = 0; layer < listed_layers(config); ++layer)
      config.window_layers.push_back(layer % 2 == 0);
  finish_windows(fields, config);
  fields.only("swiglu_limit", 7.0);
  fields.only("swiglu_alpha", 1.702);
  ExpertsConfig& experts = config.experts;
  experts.count = num_experts(fields, 128);
  experts.per_token = integer_of(fields, {"num_experts_per_tok", "experts_per_token"}, 4);
  experts.intermediate_size = config.intermediate_size;
  experts.score = ExpertScore::softmax_of_chosen;
}

void read_llama4(Fields& fields, ModelConfig& config) {
  read_common(fields, {202048, 5120, 8192, 48, 40, 8, 131072, 1e-5f, 500000.0f, 1, 2, -1, false, 128},
              config);
  config.rope_interleaved_rows = true;
  ExpertsConfig& experts = config.experts;
  experts.count = num_experts(fields, 16);
  experts.per_token = fields.integer("num_experts_per_tok", 1);
  experts.intermediate_size = experts.shared_intermediate_size = config.intermediate_size;
  experts.score = ExpertScore::sigmoid;
  config.intermediate_size = fields.integer("intermediate_size_mlp", 16384);
  const std::int32_t step = fields.integer("interleave_moe_layer_step", 1);
  const std::int32_t period = fields.integer("no_rope_layer_interval", 4);
  if (step < 1) return fields.fail("interleave_moe_layer_step", "a positive integer");
  if (period < 1) return fields.fail("no_rope_layer_interval", "a positive integer");
  const bool written = fields.find("moe_layers") != nullptr;
  const std::vector<std::int32_t> named = fields.integers("moe_layers");
  for (std::int32_t layer = 0; layer < listed_layers(config); ++layer) {
    experts.layers.push_back(written ? std::find(named.begin(), named.end(), layer) != named.end()
                                     : (layer + 1) % step == 0);
    config.rope_layers.push_back((layer + 1) % period != 0);
  }
  const json::value* rotating = fields.find("no_rope_layers");
  if (rotating != nullptr && !(rotating->is_array() && rotating->get_array().empty())) {
    config.rope_layers.clear();
    for (const bool rotates : fields.flags("no_rope_layers", listed_layers(config)))
      config.rope_layers.push_back(rotates);  // 1: rotates, whatever the name says
  }
  config.query_key_norm = fields.boolean("use_qk_norm", true);
  if (fields.boolean("attn_temperature_tuning", true)) {
    config.temperature_beta = fields.number("attn_scale", 0.1f);
    config.temperature_positions = fields.integer("floor_scale", 8192);
  }
  // Chunks, where a layer rotates.
  config.sliding_window = fields.integer("attention_chunk_size", 8192);
  if (!read_layer_types(fields, config)) config.window_layers = config.rope_layers;
  finish_windows(fields, config);
}

void read_olmoe(Fields& fields, ModelConfig& config) {
  read_common(fields, {50304, 2048, 2048, 16, 16, 0, 4096, 1e-5f, 10000.0f, -1, 50279, 1, false}, config);
  config.attention_clip = fields.number("clip_qkv", 0);
  ExpertsConfig& experts = config.experts;
  experts.count = num_experts(fields, 64);
  experts.per_token = fields.integer("num_experts_per_tok", 8);
  experts.intermediate_size = config.intermediate_size;
  experts.renormalize = fields.boolean("norm_topk_prob", false);
}

void read_granite_moe(Fields& fields, ModelConfig& config) {
  read_granite(fields, config);
  ExpertsConfig& experts = config.experts;
  experts.count = num_experts(fields, 8);
  experts.per_token = fields.integer("num_experts_per_tok", 2);
  experts.intermediate_size = config.intermediate_size;
  experts.shared_intermediate_size = fields.integer("shared_intermediate_size", 0);
  experts.score = ExpertScore::softmax_of_chosen;
}

void read_ernie4_5_moe(Fields& fields, ModelConfig& config) {
  read_common(fields, {103424, 2560, 12288, 28, 20, 4, 131072, 1e-5f, 500000.0f, 1, 2, 0, true}, config);
  config.rope_interleaved_rows = true;
  ExpertsConfig& experts = config.experts;
  experts.count = integer_of(fields, {"moe_num_experts", "num_experts"}, 64);
  experts.per_token = integer_of(fields, {"moe_k", "num_experts_per_tok"}, 6);
  experts.intermediate_size = fields.integer("moe_intermediate_size", 1536);
  experts.shared_intermediate_size = shared_size(fields, "moe_num_shared_experts", 2, experts);
  experts.renormalize = true;
  fields.only("moe_norm_min", 1e-12);
  const std::int32_t first = fields.integer("moe_layer_start_index", 1);
  const std::int32_t last = fields.integer("moe_layer_end_index", config.num_layers - 1);
  const std::int32_t step = fields.integer("moe_layer_interval", 1);
  if (step < 1) return fields.fail("moe_layer_interval", "a positive integer");
  for (std::int32_t layer = 0; layer < listed_layers(config); ++layer)
    experts.layers.push_back((layer + 1) % step == 0 && layer >= first && (last < 0 || layer <= last));
}

void read_glm4_moe(Fields& fields, ModelConfig& config) {
  Defaults absent = {151552, 4096, 10944, 46, 96, 8, 131072, 1e-5f, 10000.0f, -1, -1, -1, false};
  absent.partial = 0.5f;
  read_common(fields, absent, config);
  config.query_key_norm = fields.boolean("use_qk_norm", false);
  read_deepseek_like(fields, {.count = 128, .per_token = 8, .shared = 1, .dense = 1, .renormalize = true},
                     config);
}

// The same without norms of queries and keys.
void read_glm4v_moe(Fields& fields, ModelConfig& config) {
  Defaults absent = {151424, 4096, 10944, 46, 96, 8, 65536, 1e-5f, 10000.0f, -1, -1, -1, false};
  absent.partial = 1;
  read_common(fields, absent, config);
  fields.only("use_qk_norm", false);
  read_deepseek_like(fields, {.count = 128, .per_token = 8, .shared = 1, .dense = 1, .renormalize = true},
                     config);
}

void read_bailing_moe2(Fields& fields, ModelConfig& config) {
  Defaults absent = {157184, 2048, 5120, 20, 16, 4, 32768, 1e-6f, 600000.0f, -1, 156892, 156892, false, 128};
  absent.partial = 0.5f;
  read_common(fields, absent, config);
  for (const std::string_view option : {"use_bias", "use_qkv_bias"}) fields.only(option, false);
  fields.only("use_qk_norm", true);
  fields.only("moe_router_enable_expert_bias", true);
  if (fields.find("score_function") != nullptr) fields.only("score_function", "sigmoid");
  read_deepseek_like(fields,
                     {.count = 256,
                      .per_token = 8,
                      .shared = 1,
                      .dense = 1,
                      .renormalize = true,
                      .groups = 8,
                      .groups_used = 4},
                     config);
  config.experts.shared_intermediate_size = shared_size(fields, "num_shared_experts", 1, config.experts);
}

void read_dots1(Fields& fields, ModelConfig& config) {
  read_common(fields, {152064, 4608, 10944, 62, 32, 0, 2048, 1e-6f, 10000.0f, -1, -1, -1, false}, config);
  config.sliding_window = fields.integer("sliding_window", 4096);
  if (!read_layer_types(fields, config)) config.sliding_window = 0;
  finish_windows(fields, config);
  read_deepseek_like(fields, {.count = 0, .per_token = 0, .shared = 0, .dense = 0, .renormalize = false},
                     config);
}

void read_hunyuan_moe(Fields& fields, ModelConfig& config) {
  read_hunyuan(fields, config);
  ExpertsConfig& experts = config.experts;
  experts.count = num_experts(fields, 1);
  experts.per_token = one_of(fields, "moe_topk", 1);
  experts.intermediate_size = one_of(fields, "moe_intermediate_size", config.intermediate_size);
  experts.shared_intermediate_size = shared_size(fields, "num_shared_expert", 1, experts);
  experts.renormalize = true;
  fields.only("moe_layer_num_skipped", 0);
}

void read_minimax_m2(Fields& fields, ModelConfig& config) {
  Defaults absent = {200064, 3072,       1536,   62,     48, 8,     196608,
                     1e-6f,  5000000.0f, 200034, 200020, -1, false, 128};
  absent.partial = 1;
  read_common(fields, absent, config);
  const std::int32_t turned = fields.integer("rotary_dim", 0);  // as old files say it, and new ones beside
  const json::object* const rope = fields.object("rope_parameters");
  const bool other =
      fields.written("partial_rotary_factor") || (rope != nullptr && rope->contains("partial_rotary_factor"));
  if (turned != 0 && !other) config.rotary_size = turned;
  ExpertsConfig& experts = config.experts;
  experts.count = num_experts(fields, 256);
  experts.per_token = fields.integer("num_experts_per_tok", 8);
  experts.intermediate_size = config.intermediate_size;
  experts.score = ExpertScore::sigmoid;
  experts.renormalize = true;
}

}  // namespace pagoda
