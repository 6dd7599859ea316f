// Llama 4 (text): Llama with mixtures in which a token uses one expert, whose input is scaled by the routing
// weight, and a shared expert; unweighted norms of query and key heads after RoPE. Every fourth layer does
// not rotate, but has a query temperature. The others attend only within chunks of 8192 tokens.
#include <algorithm>

#include "models/reading.h"

namespace pagoda::llama4 {

// Layers that rotate have norms of queries and keys; the others have a query temperature.
void norm_or_scale_queries(bool norm, float beta, std::int32_t positions, DecoderConfig& decoder) {
  each_attention(decoder, [&](AttentionConfig& attention) {
    attention.temperature_positions = std::max(positions, 1);
    if (attention.rope == kNoRope) {
      attention.temperature_beta = beta;
      attention.temperature_offset = 1;
    } else {
      if (norm) attention.query_key_norm = QueryKeyNorm::per_head_unweighted;
      attention.norm_after_rope = true;
    }
  });
}

void read_llama4(Hyperparameters& h, ModelInfo& model) {
  MixtureConfig mixture = read_experts(h, model);
  mixture.shared_intermediate_size = mixture.expert.intermediate_size;
  mixture.routing.score = RouterScore::sigmoid;
  set_intermediate_size(h.integer("intermediate_size_mlp", 16384), model);
  const std::int32_t step = h.integer("interleave_moe_layer_step", 1);
  const std::int32_t period = h.integer("no_rope_layer_interval", 4);
  if (step < 1) return h.fail("interleave_moe_layer_step", "a positive integer");
  if (period < 1) return h.fail("no_rope_layer_interval", "a positive integer");
  const bool written = h.find("moe_layers") != nullptr;
  const std::vector<std::int32_t> named = h.integers("moe_layers");
  const auto is_sparse = [&](std::int32_t layer) {
    return written ? std::ranges::find(named, layer) != named.end() : (layer + 1) % step == 0;
  };
  use_mixtures(mixture, layers_where(model, is_sparse), model);
  auto rotating = layers_where(model, [&](std::int32_t layer) { return (layer + 1) % period != 0; });
  const json::value* flags = h.find("no_rope_layers");
  if (flags != nullptr && !(flags->is_array() && flags->get_array().empty()))
    rotating = h.flags("no_rope_layers", model.decoder.num_layers());  // 1: it rotates, despite the name
  if (!h.status().ok()) return;
  rotate_layers(h, rotating, model.decoder);
  norm_or_scale_queries(h.boolean("use_qk_norm", true),
                        h.boolean("attn_temperature_tuning", true) ? h.number("attn_scale", 0.1f) : 0,
                        h.integer("floor_scale", 8192), model.decoder);
  // Layers that rotate have chunks.
  const bool listed = h.find("layer_types") != nullptr;
  use_windows(h, h.integer("attention_chunk_size", 8192),
              listed ? read_layers_called(h, "chunked_attention", {"full_attention"}, model) : rotating,
              model);
}

void shape(DecoderConfig& decoder) {
  each_attention(decoder,
                 [](AttentionConfig& attention) { attention.chunks = attention.sliding_window > 0; });
  each_mixture(decoder, [](MixtureConfig& mixture) { mixture.weigh_input = true; });
}

// The file omits what all models of the family share. Only Maverick, with 128 experts, has no norms of
// queries and keys.
void read_gguf(Hyperparameters&, ModelInfo& model) {
  constexpr std::int32_t kChunk = 8192;
  rotate_three_of_four(model.decoder);
  bool maverick = false;
  each_mixture(model.decoder, [&](MixtureConfig& mixture) {
    mixture.shared_intermediate_size = mixture.expert.intermediate_size;
    maverick = mixture.routing.num_experts == 128;
  });
  norm_or_scale_queries(!maverick, 0.1f, kChunk, model.decoder);
  each_attention(model.decoder, [](AttentionConfig& attention) {
    if (attention.rope != kNoRope) attention.sliding_window = kChunk;
  });
}

extern const Family family = {
    .configs = {{"Llama4ForCausalLM", "llama4_text",
                 R"({"vocab_size":202048,"hidden_size":5120,"intermediate_size":8192,"num_hidden_layers":48,
                     "num_attention_heads":40,"num_key_value_heads":8,"max_position_embeddings":131072,
                     "rope_theta":500000,"bos_token_id":1,"eos_token_id":2,"head_dim":128,
                     "rope_interleave":true,"num_local_experts":16,"num_experts_per_tok":1})",
                 read_llama4}},
    .wrappers = {{"Llama4ForConditionalGeneration", "llama4", "llama4_text"}},
    .ggufs = {{"llama4",
               {.interleaved_rows = true,
                .experts = {.known = true, .score = RouterScore::sigmoid, .renormalize = false}},
               read_gguf}},
    .shape = shape,
    .names =
        [](WeightNames& names) {
          names.gate = "feed_forward.gate_proj";
          names.up = "feed_forward.up_proj";
          names.down = "feed_forward.down_proj";
          names.experts = {{.router = "feed_forward.router",
                            .down = "feed_forward.experts.down_proj",
                            .gate_up = "feed_forward.experts.gate_up_proj",
                            .weight = "",
                            .transposed = true,
                            .shared_gate = "feed_forward.shared_expert.gate_proj",
                            .shared_up = "feed_forward.shared_expert.up_proj",
                            .shared_down = "feed_forward.shared_expert.down_proj"}};
          names.experts.push_back(mlx_experts(names.experts.front(), "feed_forward.experts"));
        },
    .row = {.name = "Llama 4: Scout, Maverick (text)",
            .differs = "router weights applied before the expert, norms without weights, chunks of 8,192 "
                       "tokens except in every fourth layer, which has no RoPE",
            .size = "Scout"}};

}  // namespace pagoda::llama4
