// StableLM 2: Llama with layer norms, and RoPE on a quarter of each head.
#include "models/reading.h"

namespace pagoda::stablelm {

void read(Hyperparameters& h, ModelInfo& model) {
  if (h.boolean("use_parallel_residual", false)) set_parallel(model.decoder);
  if (h.boolean("qk_layernorm", has_query_norm(h))) norm_each_head(model.decoder);
}

extern const Family family = {
    .configs = {{"StableLmForCausalLM", "stablelm",
                 R"({"vocab_size":50304,"hidden_size":2560,"intermediate_size":6912,
                     "max_position_embeddings":4096,"bos_token_id":0,"eos_token_id":0,
                     "partial_rotary_factor":0.25,"layer_norm_eps":1e-5})",
                 read}},
    .ggufs = {{"stablelm", {.layer_norm = true, .may_be_parallel = true}, read}},
    .shape = layer_norms,
    .names =
        [](WeightNames& names) {
          names.query_norm = "self_attn.q_layernorm.norms.{}";
          names.key_norm = "self_attn.k_layernorm.norms.{}";
        },
    .row = {.name = "StableLM 2: 1.6B, 12B",
            .differs = "layer norms, RoPE on a quarter of each head; 12B: parallel attention and "
                       "feed-forward, a norm per head",
            .size = "1.6B",
            .config = R"({"model_type":"stablelm","hidden_size":2048,"num_hidden_layers":24})"}};

}  // namespace pagoda::stablelm
