// Helium (Kyutai): Llama that rotates adjacent pairs.
#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read(Hyperparameters& h, ModelInfo& model) {
  read_common(h,
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
               .head_size = 128},
              model);
  model.decoder.interleaved_rows = true;
}

}  // namespace

PAGODA_FAMILY(helium) = {.architecture = "helium",
                         .configs = {{"HeliumForCausalLM", "HeliumModel", "helium", read}},
                         .names = llama_names,
                         .row = {.name = "Helium 1 2B",
                                 .differs = "adjacent pairs",
                                 .checked = "transformers",
                                 .size = "2B",
                                 .config = R"({"model_type":"helium"})"}};

}  // namespace pagoda
