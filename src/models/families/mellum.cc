// Mellum 2 (JetBrains): Qwen 3 with mixtures, and windows with their own RoPE base.
#include "models/reading.h"

namespace pagoda::mellum {

void read_mellum(Hyperparameters& h, ModelInfo& model) {
  read_listed_windows(h, model);
  use_mixtures(read_experts(h, model), read_mlp_types(h, 0, model), model);
  h.without_effect("num_mtp_layers mtp_layer_types mtp_mlp_layer_types");
}

void read_gguf(Hyperparameters& h, ModelInfo& model) {
  rotate_windows_by(h.number("rope.freq_base_swa", model.decoder.ropes.front().theta), model);
  read_gguf_window_pattern(h, 4, model);
}

extern const Family family = {
    .configs = {{"MellumForCausalLM", "mellum",
                 R"({"vocab_size":98304,"hidden_size":2304,"intermediate_size":7168,"num_hidden_layers":28,
                     "num_key_value_heads":4,"max_position_embeddings":131072,"rms_norm_eps":1e-6,
                     "rope_theta":500000,"head_dim":128,"partial_rotary_factor":1,"local_rope_theta":10000,
                     "sliding_window":1024,"num_experts":64,"num_experts_per_tok":8,
                     "moe_intermediate_size":896,"norm_topk_prob":true})",
                 read_mellum}},
    .ggufs = {{"mellum", {.experts = {.known = true}}, read_gguf}},
    .shape = norm_heads,
    .folder_experts = ExpertPlaces{},
    .row = {.name = "Mellum 2 12B-A2.5B",
            .differs = "Qwen 3 with mixtures, windows with their own RoPE base",
            .size = "12B-A2.5B",
            .config = R"({"model_type":"mellum",
                          "layer_types":["full_attention","sliding_attention","sliding_attention","sliding_attention","full_attention","sliding_attention","sliding_attention","sliding_attention","full_attention","sliding_attention","sliding_attention","sliding_attention","full_attention","sliding_attention","sliding_attention","sliding_attention","full_attention","sliding_attention","sliding_attention","sliding_attention","full_attention","sliding_attention","sliding_attention","sliding_attention","full_attention","sliding_attention","sliding_attention","sliding_attention"]})"}};

}  // namespace pagoda::mellum
