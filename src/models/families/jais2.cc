// Jais 2: Llama with layer norms, biases and a plain MLP of squared ReLU.
#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read(Hyperparameters& h, ModelInfo& model) {
  read_common(h,
              {.vocab_size = 150272,
               .hidden_size = 3328,
               .intermediate_size = 26624,
               .num_heads = 26,
               .max_positions = 8192,
               .bos = 0,
               .eos = 150024,
               .eps_name = "layer_norm_eps",
               .activation = "relu2"},
              model);
}

void read_gguf(Hyperparameters& h, ModelInfo& model) {
  read_gguf_common(h, {.activation = "relu2", .layer_norm = true}, model);
}

}  // namespace

PAGODA_FAMILY(jais2) = {.architecture = "jais2",
                        .configs = {{"Jais2ForCausalLM", "Jais2Model", "jais2", read}},
                        .ggufs = {{"jais2", read_gguf}},
                        .shape = plain_layer_norm_shape,
                        .names = llama_names,
                        .row = {.name = "Jais 2: 8B, 70B",
                                .differs = "layer norms, biases, plain MLP of squared ReLU",
                                .checked = "transformers",
                                .size = "8B",
                                .config = R"({"model_type":"jais2"})"}};

}  // namespace pagoda
