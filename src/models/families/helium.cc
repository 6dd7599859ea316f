// Helium (Kyutai): Llama with rotation of adjacent pairs.
#include "models/reading.h"

namespace pagoda::helium {

extern const Family family = {
    .architecture = "helium",
    .configs = {{"HeliumForCausalLM", "helium",
                 R"({"vocab_size":48000,"hidden_size":2560,"intermediate_size":7040,
                     "num_hidden_layers":24,"num_attention_heads":20,
                     "num_key_value_heads":20,"max_position_embeddings":4096,
                     "rms_norm_eps":1e-8,"rope_theta":100000,"bos_token_id":1,
                     "eos_token_id":2,"pad_token_id":3,"head_dim":128,
                     "rope_interleave":true})"}},
    .row = {.name = "Helium 1 2B", .differs = "RoPE on adjacent pairs", .size = "2B"}};

}  // namespace pagoda::helium
