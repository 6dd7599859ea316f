// Ministral 3: Llama whose queries grow with the position.
#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read_ministral3(Hyperparameters& h, ModelConfig& config) {
  read_common(h,
              {.vocab_size = 131072,
               .hidden_size = 4096,
               .intermediate_size = 14336,
               .num_layers = 34,
               .num_heads = 32,
               .num_kv_heads = 8,
               .max_positions = 262144,
               .norm_eps = 1e-5f,
               .rope_theta = 1000000.0f,
               .bos = 1,
               .eos = 2,
               .pad = 11,
               .head_size = 128},
              config);
  if (h.object("rope_scaling") == nullptr && h.object("rope_parameters") == nullptr) {
    config.rope_scaling = RopeScaling::yarn;
    config.rope_factor = 16;
    config.rope_original_positions = config.temperature_positions = 16384;
    config.temperature_beta = 0.1f;
  }
  config.sliding_window = h.integer("sliding_window", 0);
}

void read_gguf(Hyperparameters& h, ModelConfig& config) {
  read_gguf_common(h, {.interleaved_rows = true}, config);
  config.temperature_beta = h.number("attention.temperature_scale", 0.0f);
  config.temperature_positions = config.rope_original_positions;
  h.without_effect({"attention.temperature_length"});
}

}  // namespace

PAGODA_FAMILY(ministral3) = {
    .architecture = "mistral3",
    .configs = {{"Ministral3ForCausalLM", "Ministral3Model", "ministral3", read_ministral3}},
    .ggufs = {{"mistral3", read_gguf}},
    .describe = common_description,
    .names = llama_names,
    .row = {.name = "Ministral 3: 3B, 8B, 14B, Mistral Small 3.1 and later (text)",
            .differs = "YaRN, queries that grow with the position",
            .checked = "transformers",
            .size = "8B",
            .config = R"({"model_type":"ministral3"})"}};

}  // namespace pagoda
