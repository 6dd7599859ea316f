// Latent attention: DeepSeek-V2 and V3, Mistral Small 4, GLM-4.7-Flash, MiniCPM 3.
#include <algorithm>
#include <cmath>

#include "models/reading.h"

namespace pagoda {
namespace {

// Implausible sizes are refused later; until then they must not overflow.
constexpr std::int32_t kMaxSize = 1 << 20;
std::int32_t size_of(Hyperparameters& h, std::string_view name,
                     std::optional<std::int32_t> otherwise = std::nullopt) {
  return std::clamp(h.integer(name, otherwise), -1, kMaxSize);
}

float usual_scale(const LatentAttentionConfig& latent) {
  return 1 / std::sqrt(static_cast<float>(std::max(latent.query_size(), 1)));
}

// A stretched rotation also scales the products of queries and rows.
float stretched_scale(Hyperparameters& h, const LatentAttentionConfig& latent, float factor) {
  const json::object* const object = rope_object(h);
  const float plain = usual_scale(latent);
  if (object == nullptr) return plain;
  Hyperparameters rope(*object, h.shared_status());
  if (rope.string("rope_type", rope.string("type", "default")) == "default") return plain;
  const float scale = yarn_scale(rope.number("factor", factor), rope.number("mscale_all_dim", 0));
  return plain * scale * scale;
}

void use_latent(LatentAttentionConfig latent, ModelInfo& model) {
  const AttentionConfig& attention = *model.decoder.layers.front().attention();
  model.decoder.ropes.front().rotary_size = latent.rope_size;
  latent.num_heads = attention.num_heads;
  latent.temperature_beta = attention.temperature_beta;
  latent.temperature_positions = attention.temperature_positions;
  for (LayerConfig& layer : model.decoder.layers) layer.mixer = latent;
}

}  // namespace

void read_latent(Hyperparameters& h, ModelInfo& model) {
  const std::int32_t heads = model.decoder.layers.front().attention()->num_heads;
  LatentAttentionConfig latent;
  latent.latent_size = size_of(h, "kv_lora_rank");
  if (latent.latent_size < 1) return h.fail("kv_lora_rank", "a positive integer");
  latent.query_rank = std::clamp(h.nullable_integer("q_lora_rank", 0), -1, kMaxSize);
  latent.nope_size = size_of(h, "qk_nope_head_dim");
  latent.rope_size = size_of(h, "qk_rope_head_dim");
  latent.value_size = size_of(h, "v_head_dim", divide(model.decoder.hidden_size, heads));
  latent.scale = stretched_scale(h, latent, model.decoder.ropes.front().factor);
  use_latent(latent, model);
}

// key_length is the size of a head or, in newer files, of the kept row; the head size is then a separate key.
void read_gguf_latent(Hyperparameters& h, ModelInfo& model) {
  const AttentionConfig& attention = *model.decoder.layers.front().attention();
  LatentAttentionConfig latent;
  latent.latent_size = size_of(h, "attention.kv_lora_rank");
  if (latent.latent_size < 1) return h.fail("attention.kv_lora_rank", "positive");
  if (const float beta = h.number("attention.temperature_scale", 0.0f); beta != 0)
    set_query_temperature(beta, model.decoder.ropes.front().original_positions, model.decoder);
  latent.query_rank = size_of(h, "attention.q_lora_rank", 0);
  latent.rope_size = std::clamp(model.decoder.ropes.front().rotary_size, -1, kMaxSize);
  latent.nope_size = size_of(h, "attention.key_length_mla", attention.head_size) - latent.rope_size;
  latent.value_size =
      h.written("attention.value_length_mla")
          ? size_of(h, "attention.value_length_mla")
          : size_of(h, "attention.value_length", divide(model.decoder.hidden_size, attention.num_heads));
  latent.scale = usual_scale(latent);
  use_latent(latent, model);
}

// A stretched rotation scales the products of queries and rows, and divides the scale of cosines and sines.
void read_gguf_deepseek(Hyperparameters& h, ModelInfo& model) {
  // Converters omit the routing score where config.json does; only sigmoid scores have corrections.
  const bool corrected = std::ranges::any_of(h.gguf()->tensor_list(), [](const FileTensor& tensor) {
    return tensor.name.find(".exp_probs_b") != std::string_view::npos;
  });
  read_gguf_common(h,
                   {.interleaved_rows = true,
                    .latent = true,
                    .experts = {.known = true,
                                .score = corrected ? RouterScore::sigmoid : RouterScore::softmax,
                                .renormalize = false}},
                   model);
  read_gguf_latent(h, model);
  RopeConfig& rope = model.decoder.ropes.front();
  const float all = h.number("rope.scaling.yarn_log_multiplier", 0.0f) / 0.1f;  // stored as a tenth
  if (rope.scaling != RopeScaling::yarn || all == 0 || rope.factor <= 1) return;
  const float scale = yarn_scale(rope.factor, all);
  for (LayerConfig& layer : model.decoder.layers)
    if (auto* const latent = std::get_if<LatentAttentionConfig>(&layer.mixer))
      latent->scale = scale * scale / std::sqrt(static_cast<float>(latent->query_size()));
  rope.attention_factor = gguf_yarn_scale(h, 1);
}

void latent_names(WeightNames& names) {
  names.query_a = "self_attn.q_a_proj";
  names.query_a_norm = "self_attn.q_a_layernorm";
  names.query_b = "self_attn.q_b_proj";
  names.kv_a = "self_attn.kv_a_proj_with_mqa";
  names.kv_a_norm = "self_attn.kv_a_layernorm";
  names.kv_b = "self_attn.kv_b_proj";
  names.key_b = "self_attn.embed_q";  // in MLX's folders
  names.value_b = "self_attn.unembed_out";
  names.experts = hf_expert_names({.shared = "shared_experts"});
}

}  // namespace pagoda
