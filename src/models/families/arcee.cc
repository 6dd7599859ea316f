// Arcee: Llama with a plain MLP of squared ReLU.
#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read_arcee(Hyperparameters& h, ModelConfig& config) {
  Defaults absent = {.vocab_size = 32000,
                     .hidden_size = 2560,
                     .intermediate_size = 18432,
                     .num_layers = 32,
                     .num_heads = 32,
                     .max_positions = 4096,
                     .norm_eps = 1e-5f,
                     .rope_theta = 10000.0f,
                     .bos = 128000,
                     .eos = 128001};
  absent.activation = "relu2";
  read_common(h, absent, config);
}

Result<DecoderConfig> describe(const ModelConfig& config) {
  auto decoder = common_description(config);
  if (!decoder) return decoder.error();
  for (LayerConfig& layer : decoder->layers) layer.dense()->gated = false;
  return decoder;
}

void read_gguf(Hyperparameters& h, ModelConfig& config) {
  read_gguf_common(h, {.activation = "relu2", .interleaved_rows = true}, config);
}

}  // namespace

PAGODA_FAMILY(arcee) = {
    .architecture = "arcee",
    .configs = {{"ArceeForCausalLM", "ArceeModel", "arcee", read_arcee}},
    .ggufs = {{"arcee", read_gguf}},
    .describe = describe,
    .names = llama_names,
    .row = {.name = "Arcee AFM 4.5B",
            .differs = "plain MLP of squared ReLU",
            .checked = "transformers",
            .size = "4.5B",
            .config = R"({"model_type":"arcee","num_hidden_layers":36,"num_attention_heads":20,
                       "num_key_value_heads":4})"}};

}  // namespace pagoda
