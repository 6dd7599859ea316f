// Gemma 1: Llama with a scaled embedding and GELU.
#include "models/reading.h"

namespace pagoda {
namespace {

void read_gemma(Hyperparameters& h, ModelInfo& model) {
  // "gelu", which old files have, is what the model was not trained with.
  std::string activation = h.string("hidden_act", h.string("hidden_activation", "gelu_pytorch_tanh"));
  if (activation == "gelu") activation = "gelu_pytorch_tanh";
  Defaults absent = kGemma;
  absent.hidden_size = 3072;
  absent.num_layers = 28;
  absent.num_heads = 16;
  absent.max_positions = 8192;
  absent.intermediate_size = 24576;
  absent.num_kv_heads = 16;
  absent.activation = activation;
  absent.activation_name = "";
  read_common(h, absent, model);
  offset_norms(model.decoder);
  h.only("use_bidirectional_attention", false);
}

}  // namespace

PAGODA_FAMILY(gemma) = {.configs = {{"GemmaForCausalLM", "gemma", {}, read_gemma, Reads::all}},
                        .ggufs = {{"gemma", {.activation = "gelu_new"}}},
                        .shape = scale_embedding,
                        .row = {.name = "Gemma 1: 2B, 7B",
                                .differs = "scaled embedding, GELU",
                                .size = "7B",
                                .config = R"({"model_type":"gemma"})"}};

}  // namespace pagoda
