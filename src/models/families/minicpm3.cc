// MiniCPM 3: latent attention with dense feed-forwards and scaled residuals.
#include <algorithm>
#include <cmath>

#include "models/reading.h"

namespace pagoda::minicpm3 {

void read_minicpm3(Hyperparameters& h, ModelInfo& model) {
  const auto layers = static_cast<float>(model.decoder.num_layers()),
             width = static_cast<float>(std::max(model.decoder.hidden_size, 1));
  model.decoder.embedding_scale = h.number("scale_emb", 12);
  scale_residual(h.nullable_number("scale_depth", std::sqrt(layers)) / std::sqrt(layers), model.decoder);
  model.decoder.logit_scale = h.nullable_number("dim_model_base", width) / width;
  read_latent(h, model);
}

// The file omits the scales; the family has only one model.
void read_gguf(Hyperparameters& h, ModelInfo& model) {
  read_gguf_latent(h, model);
  RopeConfig& rope = model.decoder.ropes.front();
  if (rope.original_positions == 0) rope.original_positions = model.decoder.max_positions;
  model.decoder.embedding_scale = 12;
  scale_residual(1.4f / std::sqrt(static_cast<float>(model.decoder.num_layers())), model.decoder);
  model.decoder.logit_scale = 256.0f / static_cast<float>(model.decoder.hidden_size);
}

extern const Family family = {
    .configs = {{"MiniCPM3ForCausalLM", "minicpm3",
                 R"({"vocab_size":73448,"hidden_size":2560,"intermediate_size":6400,"num_hidden_layers":62,
                     "num_attention_heads":40,"num_key_value_heads":40,"max_position_embeddings":32768,
                     "bos_token_id":1,"eos_token_id":2,"tie_word_embeddings":true,"scale_depth":1.4,
                     "dim_model_base":256,"kv_lora_rank":256,"q_lora_rank":768,"qk_nope_head_dim":64,
                     "qk_rope_head_dim":32})",
                 read_minicpm3}},
    .ggufs = {{"minicpm3", {.latent = true}, read_gguf}},
    .names = latent_names,
    .gguf_names = [](WeightNames& names) { names.key_b = names.value_b = ""; },
    .row = {.name = "MiniCPM 3 4B", .differs = "latent attention, three scales, longrope", .size = "4B"}};

}  // namespace pagoda::minicpm3
