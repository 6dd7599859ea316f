// ERNIE 4.5: Llama that rotates adjacent pairs.
#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read_ernie4_5(Hyperparameters& h, ModelInfo& model) {
  read_common(h,
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
               .head_size = 128},
              model);
  model.decoder.interleaved_rows = true;
}

void read_gguf(Hyperparameters& h, ModelInfo& model) {
  read_gguf_common(h, {.interleaved_rows = true}, model);
}

}  // namespace

PAGODA_FAMILY(ernie4_5) = {.architecture = "ernie4_5",
                           .configs = {{"Ernie4_5ForCausalLM", "Ernie4_5Model", "ernie4_5", read_ernie4_5}},
                           .ggufs = {{"ernie4_5", read_gguf}},
                           .names = llama_names,
                           .row = {.name = "ERNIE 4.5: 0.3B",
                                   .differs = "adjacent pairs",
                                   .checked = "transformers",
                                   .size = "0.3B",
                                   .config = R"({"model_type":"ernie4_5"})"}};

}  // namespace pagoda
