// ERNIE 4.5: Llama with rotation of adjacent pairs.
#include "models/reading.h"

namespace pagoda::ernie4_5 {

extern const Family family = {
    .configs = {{"Ernie4_5ForCausalLM", "ernie4_5",
                 R"({"vocab_size":103424,"hidden_size":1024,"intermediate_size":3072,
                                            "num_hidden_layers":18,"num_attention_heads":16,
                                            "num_key_value_heads":2,"max_position_embeddings":131072,
                                            "rope_theta":500000,"bos_token_id":1,"eos_token_id":2,
                                            "pad_token_id":0,"tie_word_embeddings":true,"head_dim":128,
                                            "rope_interleave":true})"}},
    .ggufs = {{"ernie4_5", {.interleaved_rows = true}}},
    .row = {.name = "ERNIE 4.5: 0.3B", .differs = "RoPE on adjacent pairs", .size = "0.3B"}};

}  // namespace pagoda::ernie4_5
