// ERNIE 4.5: Llama that rotates adjacent pairs.
#include "models/reading.h"

namespace pagoda {

PAGODA_FAMILY(ernie4_5) = {.configs = {{"Ernie4_5ForCausalLM",
                                        "ernie4_5",
                                        {.vocab_size = 103424,
                                         .hidden_size = 1024,
                                         .intermediate_size = 3072,
                                         .num_layers = 18,
                                         .num_heads = 16,
                                         .num_kv_heads = 2,
                                         .max_positions = 131072,
                                         .rope_theta = 500000.0f,
                                         .bos = 1,
                                         .eos = 2,
                                         .pad = 0,
                                         .tied = true,
                                         .head_size = 128,
                                         .interleaved_rows = true}}},
                           .ggufs = {{"ernie4_5", {.interleaved_rows = true}}},
                           .row = {.name = "ERNIE 4.5: 0.3B",
                                   .differs = "adjacent pairs",
                                   .size = "0.3B",
                                   .config = R"({"model_type":"ernie4_5"})"}};

}  // namespace pagoda
