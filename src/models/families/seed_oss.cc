// Seed-OSS: Llama with biases of queries, keys and values.
#include "models/reading.h"

namespace pagoda {

PAGODA_FAMILY(seed_oss) = {.configs = {{"SeedOssForCausalLM",
                                        "seed_oss",
                                        {.vocab_size = 155136,
                                         .intermediate_size = 27648,
                                         .num_layers = 64,
                                         .num_heads = 80,
                                         .num_kv_heads = 8,
                                         .max_positions = 524288,
                                         .norm_eps = 1e-6f,
                                         .bos = 0,
                                         .eos = 2,
                                         .pad = 1,
                                         .head_size = 128}}},
                           .ggufs = {{"seed_oss"}},
                           .gguf_names = [](WeightNames& names) { names.mlp_norm = "post_attention_norm"; },
                           .row = {.name = "Seed-OSS 36B",
                                   .differs = "biases",
                                   .size = "36B",
                                   .config = R"({"model_type":"seed_oss"})"}};

}  // namespace pagoda
