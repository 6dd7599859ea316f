// Qwen3.5, Qwen3.6 and Qwen3.8, dense and with mixtures: Qwen3-Next with another order of value heads in GGUF
// files.
#include "models/reading.h"

namespace pagoda::qwen3_5 {

void read_qwen3_5_moe(Hyperparameters& h, ModelInfo& model) {
  read_delta_net(h, model);
  h.only("norm_topk_prob", true);
  use_mixtures(read_gated_experts(h, model), {}, model);
}

void read_gguf(Hyperparameters& h, ModelInfo& model) { read_gguf_delta_net(h, true, model); }

extern const Family family = {
    .configs =
        {{"Qwen3_5ForCausalLM", "qwen3_5_text",
          R"({"vocab_size":248320,"intermediate_size":12288,"num_attention_heads":16,"num_key_value_heads":4,
              "max_position_embeddings":32768,"rms_norm_eps":1e-6,"head_dim":256,
              "partial_rotary_factor":0.25})",
          read_delta_net},
         {"Qwen3_5MoeForCausalLM", "qwen3_5_moe_text",
          R"({"vocab_size":248320,"hidden_size":2048,"intermediate_size":512,"num_hidden_layers":40,
              "num_attention_heads":16,"num_key_value_heads":2,"max_position_embeddings":32768,
              "rms_norm_eps":1e-6,"head_dim":256,"partial_rotary_factor":0.25,"num_experts":256,
              "num_experts_per_tok":8,"moe_intermediate_size":512,"shared_expert_intermediate_size":512,
              "norm_topk_prob":true})",
          read_qwen3_5_moe, Reads::rest, "qwen35moe"}},
    .wrappers = {{"MiniCPMV4_6ForConditionalGeneration", "minicpmv4_6", "qwen3_5_text"},
                 {"Qwen3_5ForConditionalGeneration", "qwen3_5", "qwen3_5_text"},
                 {"Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe", "qwen3_5_moe_text"}},
    .ggufs = {{"qwen35", {.rope_sections = true}, read_gguf},
              {"qwen35moe",
               {.rope_sections = true, .experts = {.known = true, .shared_gate = true}},
               read_gguf}},
    .shape = delta_net_shape,
    .names = delta_net_names,
    .gguf_names = delta_net_gguf_names,
    .row = {.name = "Qwen 3.5, 3.6, 3.8: 0.8B to 27B, 35B-A3B (text)",
            .differs = "a gated delta net in three of four layers, in the others Qwen 3's attention with a "
                       "gate on each head's output; 35B: mixtures",
            .size = "35B-A3B",
            .config = R"({"model_type":"qwen3_5_moe_text"})"}};

}  // namespace pagoda::qwen3_5
