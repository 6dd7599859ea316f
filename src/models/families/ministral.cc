// Ministral 8B of 2024: Llama with windows in some layers or in all.
#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read(Hyperparameters& h, ModelConfig& config) {
  read_common(h,
              {.vocab_size = 32000,
               .hidden_size = 4096,
               .intermediate_size = 14336,
               .num_layers = 32,
               .num_heads = 32,
               .num_kv_heads = 8,
               .max_positions = 131072,
               .norm_eps = 1e-6f,
               .bos = 1,
               .eos = 2},
              config);
  config.sliding_window = h.written("sliding_window") ? h.integer("sliding_window", 0) : 4096;
  read_layer_types(h, config);
  if (!config.window_layers.empty()) finish_windows(h, config);
}

}  // namespace

PAGODA_FAMILY(ministral) = {
    .architecture = "ministral",
    .configs = {{"MinistralForCausalLM", "MinistralModel", "ministral", read}},
    .describe = common_description,
    .names = llama_names,
    .row = {.name = "Ministral 8B 2410",
            .differs = "windows in some layers; as GGUF it is a `llama`",
            .checked = "transformers",
            .size = "8B",
            .config = R"({"model_type":"ministral","hidden_size":4096,"num_hidden_layers":36,"head_dim":128,
                       "intermediate_size":12288,"sliding_window":null})"}};

}  // namespace pagoda
