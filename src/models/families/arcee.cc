// Arcee: Llama with a plain MLP of squared ReLU.
#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read_arcee(Hyperparameters& h, ModelInfo& model) {
  read_common(h,
              {.hidden_size = 2560,
               .intermediate_size = 18432,
               .max_positions = 4096,
               .bos = 128000,
               .eos = 128001,
               .activation = "relu2"},
              model);
}

void read_gguf(Hyperparameters& h, ModelInfo& model) {
  read_gguf_common(h, {.activation = "relu2", .interleaved_rows = true}, model);
}

}  // namespace

PAGODA_FAMILY(arcee) = {
    .architecture = "arcee",
    .configs = {{"ArceeForCausalLM", "ArceeModel", "arcee", read_arcee}},
    .ggufs = {{"arcee", read_gguf}},
    .shape = plain_feed_forwards,
    .names = llama_names,
    .row = {.name = "Arcee AFM 4.5B",
            .differs = "plain MLP of squared ReLU",
            .checked = "transformers",
            .size = "4.5B",
            .config = R"({"model_type":"arcee","num_hidden_layers":36,"num_attention_heads":20,
                       "num_key_value_heads":4})"}};

}  // namespace pagoda
