// Phi-3 and Phi-4: Llama with fused query, key and value, and fused gate and up.
#include "models/reading.h"

namespace pagoda::phi3 {

void read_phi3(Hyperparameters& h, ModelInfo& model) {
  use_windows(h, h.integer("sliding_window", 0), {}, model);
  h.find("original_max_position_embeddings");  // used by rotations that need it
}

void names(WeightNames& names) {
  names.query = names.key = names.value = names.gate = names.up = "";
  names.fused_qkv = "self_attn.qkv_proj";
  names.fused_gate_up = "mlp.gate_up_proj";
}

extern const Family family = {
    .configs = {{"Phi3ForCausalLM", "phi3",
                 R"({"vocab_size":32064,"hidden_size":3072,"intermediate_size":8192,
                     "max_position_embeddings":4096,"bos_token_id":1,"eos_token_id":32000,
                     "pad_token_id":32000,"partial_rotary_factor":1})",
                 read_phi3}},
    .ggufs = {{"phi3"}},
    .names = names,
    .row = {.name = "Phi 3, 3.5, 4",
            .differs = "fused matrices, window, longrope",
            .size = "Phi 4 14B",
            .config = R"({"model_type":"phi3","hidden_size":5120,"num_hidden_layers":40,
                          "num_attention_heads":40,"num_key_value_heads":10,
                          "max_position_embeddings":16384})"}};

}  // namespace pagoda::phi3
