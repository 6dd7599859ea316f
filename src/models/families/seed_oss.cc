// Seed-OSS: Llama with biases of queries, keys and values.
#include "models/reading.h"

namespace pagoda::seed_oss {

extern const Family family = {.configs = {{"SeedOssForCausalLM", "seed_oss",
                                           R"({"vocab_size":155136,"intermediate_size":27648,
                                               "num_hidden_layers":64,"num_attention_heads":80,
                                               "num_key_value_heads":8,"max_position_embeddings":524288,
                                               "rms_norm_eps":1e-6,"bos_token_id":0,"eos_token_id":2,
                                               "pad_token_id":1,"head_dim":128})"}},
                              .ggufs = {{"seed_oss"}},
                              .gguf_names = post_attention_gguf_names,
                              .row = {.name = "Seed-OSS 36B", .differs = "biases", .size = "36B"}};

}  // namespace pagoda::seed_oss
