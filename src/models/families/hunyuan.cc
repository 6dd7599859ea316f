// Hunyuan (dense): Llama with an RMS norm of each query and key head after RoPE.
#include "models/reading.h"

namespace pagoda::hunyuan {

extern const Family family = {
    .configs = {{"HunYuanDenseV1ForCausalLM", "hunyuan_v1_dense",
                 R"({"vocab_size":290943,"intermediate_size":11008,"bos_token_id":1,"eos_token_id":2,
                     "pad_token_id":0})"}},
    .ggufs = {{"hunyuan-dense"}},
    .shape = norm_heads_after_rope,
    .names = hunyuan_names,
    .row = {.name = "Hunyuan: 0.5B to 7B, HY-MT",
            .differs = "norms of queries and keys after RoPE",
            .size = "7B",
            .config = R"({"model_type":"hunyuan_v1_dense","num_key_value_heads":8})"}};

}  // namespace pagoda::hunyuan
