// Helium (Kyutai): Llama that rotates adjacent pairs.
#include "models/reading.h"

namespace pagoda {

PAGODA_FAMILY(helium) = {.architecture = "helium",
                         .configs = {{"HeliumForCausalLM",
                                      "helium",
                                      {.vocab_size = 48000,
                                       .hidden_size = 2560,
                                       .intermediate_size = 7040,
                                       .num_layers = 24,
                                       .num_heads = 20,
                                       .num_kv_heads = 20,
                                       .max_positions = 4096,
                                       .norm_eps = 1e-8f,
                                       .rope_theta = 100000.0f,
                                       .bos = 1,
                                       .eos = 2,
                                       .pad = 3,
                                       .head_size = 128,
                                       .interleaved_rows = true}}},
                         .row = {.name = "Helium 1 2B",
                                 .differs = "adjacent pairs",
                                 .size = "2B",
                                 .config = R"({"model_type":"helium"})"}};

}  // namespace pagoda
