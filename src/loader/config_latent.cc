// config.json of families with latent attention: DeepSeek-V2 and V3, GLM-4.7-Flash, MiniCPM3.
#include <algorithm>
#include <cmath>

#include "loader/config_families.h"

namespace pagoda {
namespace {

// Nonsense is refused later, but must not overflow before.
std::int32_t size_of(Fields& fields, std::string_view name, std::int32_t otherwise) {
  return std::clamp(fields.integer(name, otherwise), -1, 1 << 20);
}

// Where the rotation is stretched, by whatever rule, the products of queries and rows are scaled, too.
float stretched_scale(Fields& fields, const ModelConfig& config) {
  const json::object* object = fields.object("rope_scaling");
  if (object == nullptr || object->empty()) object = fields.object("rope_parameters");
  const float plain = 1 / std::sqrt(static_cast<float>(std::max(config.head_size, 1)));
  if (object == nullptr) return plain;
  Fields rope(*object, fields.shared_status());
  if (rope.string("rope_type", rope.string("type", "default")) == "default") return plain;
  const float scale = yarn_scale(rope.number("factor", config.rope_factor), rope.number("mscale_all_dim", 0));
  return plain * scale * scale;
}

// The rest is known.
void read_latent(Fields& fields, const LatentConfig& absent, ModelConfig& config) {
  LatentConfig& latent = config.latent;
  latent.rank = size_of(fields, "kv_lora_rank", absent.rank);
  if (latent.rank < 1) return fields.fail("kv_lora_rank", "a positive integer");
  latent.query_rank = size_of(fields, "q_lora_rank", fields.written("q_lora_rank") ? 0 : absent.query_rank);
  latent.nope_size = size_of(fields, "qk_nope_head_dim", absent.nope_size);
  latent.rope_size = size_of(fields, "qk_rope_head_dim", absent.rope_size);
  latent.value_size = size_of(fields, "v_head_dim", absent.value_size);
  config.head_size = latent.nope_size + latent.rope_size;
  config.rotary_size = latent.rope_size;
  config.num_kv_heads = 1;
  config.attention_scale = stretched_scale(fields, config);
}

}  // namespace

void read_deepseek_v2(Fields& fields, ModelConfig& config) {
  read_common(fields, {102400, 4096, 11008, 32, 32, 0, 2048, 1e-6f, 10000.0f, 1, 2, -1, false}, config);
  config.rope_interleaved_rows = true;
  read_deepseek_like(fields,
                     {.count = 64,
                      .per_token = 6,
                      .shared = 2,
                      .dense = 0,
                      .renormalize = false,
                      .score = ExpertScore::softmax,
                      .intermediate = 1407},
                     config);
  fields.only("norm_topk_prob", false);
  fields.only("moe_layer_freq", 1);
  if (fields.string("topk_method", "greedy") == "greedy")
    config.experts.groups = config.experts.groups_used = 1;
  else
    fields.only("topk_method", "group_limited_greedy");
  read_latent(fields, {.rank = 512, .query_rank = 1536, .nope_size = 128, .rope_size = 64, .value_size = 128},
              config);
}

void read_deepseek_v3(Fields& fields, ModelConfig& config) {
  read_common(fields, {129280, 7168, 18432, 61, 128, 128, 4096, 1e-6f, 10000.0f, 0, 1, -1, false}, config);
  config.rope_interleaved_rows = fields.boolean("rope_interleave", true);
  read_deepseek_like(fields,
                     {.count = 256,
                      .per_token = 8,
                      .shared = 1,
                      .dense = 3,
                      .renormalize = true,
                      .groups = 8,
                      .groups_used = 4,
                      .intermediate = 2048},
                     config);
  if (fields.find("routed_scaling_factor") == nullptr) config.experts.scale = 2.5f;
  fields.only("topk_method", "noaux_tc");
  fields.only("moe_layer_freq", 1);
  read_latent(fields, {.rank = 512, .query_rank = 1536, .nope_size = 128, .rope_size = 64, .value_size = 128},
              config);
}

void read_glm4_moe_lite(Fields& fields, ModelConfig& config) {
  read_common(fields, {154880, 2048, 10240, 47, 20, 20, 202752, 1e-5f, 10000.0f, 0, 1, -1, false}, config);
  config.rope_interleaved_rows = fields.boolean("rope_interleave", true);
  read_deepseek_like(
      fields,
      {.count = 64, .per_token = 4, .shared = 1, .dense = 1, .renormalize = true, .intermediate = 1536},
      config);
  if (fields.find("routed_scaling_factor") == nullptr) config.experts.scale = 1.8f;
  fields.only("topk_method", "noaux_tc");
  if (fields.find("mlp_layer_types") != nullptr) read_mlp_types(fields, 0, config);
  read_latent(fields, {.rank = 512, .query_rank = 768, .nope_size = 192, .rope_size = 64, .value_size = 256},
              config);
}

void read_minicpm3(Fields& fields, ModelConfig& config) {
  read_common(fields, {73448, 2560, 6400, 62, 40, 40, 32768, 1e-5f, 10000.0f, 1, 2, -1, true}, config);
  const auto layers = static_cast<float>(std::max(config.num_layers, 1)),
             width = static_cast<float>(std::max(config.hidden_size, 1));
  config.embedding_scale = fields.number("scale_emb", 12);
  config.residual_scale =
      fields.number("scale_depth", fields.written("scale_depth") ? std::sqrt(layers) : 1.4f) /
      std::sqrt(layers);
  config.logit_scale =
      fields.number("dim_model_base", fields.written("dim_model_base") ? width : 256.0f) / width;
  read_latent(fields,
              {.rank = 256,
               .query_rank = 768,
               .nope_size = 64,
               .rope_size = 32,
               .value_size = divide(config.hidden_size, config.num_heads)},
              config);
}

}  // namespace pagoda
