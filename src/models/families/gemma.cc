// Gemma 1: Llama with a scaled embedding and GELU.
#include "models/reading.h"

namespace pagoda::gemma {

void read_gemma(Hyperparameters& h, ModelInfo& model) {
  // Old files say "gelu", which is not the activation that the model was trained with.
  std::string activation = h.string("hidden_act", h.string("hidden_activation", "gelu_pytorch_tanh"));
  if (activation == "gelu") activation = "gelu_pytorch_tanh";
  read_layers(h, model, {.activation = activation});
  read_rope(h, model);
  offset_norms(model.decoder);
  h.only("use_bidirectional_attention", false);
}

extern const Family family = {
    .configs = {{"GemmaForCausalLM", "gemma",
                 R"({"vocab_size":256000,"hidden_size":3072,"intermediate_size":24576,"num_hidden_layers":28,
                     "num_attention_heads":16,"max_position_embeddings":8192,"num_key_value_heads":16,
                     "rms_norm_eps":1e-6,"bos_token_id":2,"eos_token_id":1,"pad_token_id":0,
                     "tie_word_embeddings":true,"head_dim":256,"hidden_activation":"gelu_pytorch_tanh"})",
                 read_gemma, Reads::all}},
    .ggufs = {{"gemma", {.activation = "gelu_new"}}},
    .shape = scale_embedding,
    .row = {.name = "Gemma 1: 2B, 7B", .differs = "scaled embedding, GELU", .size = "7B"}};

}  // namespace pagoda::gemma
