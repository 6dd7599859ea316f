// Gemma 1: Llama with a scaled embedding and GELU.
#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read_gemma(Hyperparameters& h, ModelConfig& config) {
  read_common(h,
              {.vocab_size = 256000,
               .hidden_size = 3072,
               .intermediate_size = 24576,
               .num_layers = 28,
               .num_heads = 16,
               .num_kv_heads = 16,
               .max_positions = 8192,
               .norm_eps = 1e-6f,
               .rope_theta = 10000.0f,
               .bos = 2,
               .eos = 1,
               .pad = 0,
               .tied = true,
               .head_size = 256},
              config);
  config.norm_weight_offset = 1;
  // "gelu", which old files have, is what the model was not trained with.
  config.activation = h.string("hidden_act", h.string("hidden_activation", "gelu_pytorch_tanh"));
  if (config.activation == "gelu") config.activation = "gelu_pytorch_tanh";
  h.only("use_bidirectional_attention", false);
}

void read_gguf(Hyperparameters& h, ModelConfig& config) {
  read_gguf_common(h, {.activation = "gelu_new"}, config);
}

}  // namespace

PAGODA_FAMILY(gemma) = {.architecture = "gemma",
                        .configs = {{"GemmaForCausalLM", "GemmaModel", "gemma", read_gemma}},
                        .ggufs = {{"gemma", read_gguf}},
                        .describe = gemma_description,
                        .names = llama_names,
                        .row = {.name = "Gemma 1: 2B, 7B",
                                .differs = "scaled embedding, GELU",
                                .checked = "transformers",
                                .size = "7B",
                                .config = R"({"model_type":"gemma"})"}};

}  // namespace pagoda
