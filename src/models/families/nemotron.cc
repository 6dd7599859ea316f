// Nemotron 3, 4 and Minitron: Llama with layer norms and a plain MLP of squared ReLU.
#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read_nemotron(Hyperparameters& h, ModelInfo& model) {
  read_common(h,
              {.vocab_size = 256000,
               .hidden_size = 6144,
               .intermediate_size = 24576,
               .num_heads = 48,
               .max_positions = 4096,
               .bos = 2,
               .eos = 3,
               .partial = 0.5f,
               .eps_name = "norm_eps",
               .activation = "relu2"},
              model);
  offset_norms(model.decoder);
}

void read_gguf(Hyperparameters& h, ModelInfo& model) {
  read_gguf_common(h, {.activation = "relu2", .layer_norm = true}, model);
}

}  // namespace

PAGODA_FAMILY(nemotron) = {
    .architecture = "nemotron",
    .configs = {{"NemotronForCausalLM", "NemotronModel", "nemotron", read_nemotron}},
    .ggufs = {{"nemotron", read_gguf}},
    .shape = plain_layer_norm_shape,
    .names = llama_names,
    .row = {.name = "Nemotron 3, 4, Minitron (dense)",
            .differs = "layer norms, squared ReLU, half of each head rotates",
            .checked = "transformers",
            .size = "Minitron 4B",
            .config = R"({"model_type":"nemotron","hidden_size":3072,"num_attention_heads":24,
                       "num_key_value_heads":8})"}};

}  // namespace pagoda
