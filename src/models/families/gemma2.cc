// Gemma 2: Gemma 1 with norms before and after each sublayer, soft caps, and a window in every second layer.
#include "models/reading.h"

namespace pagoda::gemma2 {

void read_caps_and_windows(Hyperparameters& h, ModelInfo& model) {
  cap_attention(h.nullable_number("attn_logit_softcapping", 0), model.decoder);
  model.decoder.logit_softcap = h.nullable_number("final_logit_softcapping", 0);
  read_window_pattern(h, 2, model);
}

void read_gemma2(Hyperparameters& h, ModelInfo& model) {
  offset_norms(model.decoder);
  read_query_scale(h, model.decoder);
  read_caps_and_windows(h, model);
  h.only("use_bidirectional_attention", false);
}

void read_gguf(Hyperparameters& h, ModelInfo& model) {
  read_caps_and_windows(h, model);
  // The file does not say that the 27B model, the only one with 46 layers, scales by its width per head.
  if (model.decoder.num_layers() == 46) scale_attention_by_width(model.decoder);
}

extern const Family family = {
    .configs = {{"Gemma2ForCausalLM", "gemma2",
                 R"({"vocab_size":256000,"hidden_size":2304,"intermediate_size":9216,"num_hidden_layers":26,
                     "num_attention_heads":8,"max_position_embeddings":8192,"num_key_value_heads":4,
                     "rms_norm_eps":1e-6,"bos_token_id":2,"eos_token_id":1,"pad_token_id":0,
                     "tie_word_embeddings":true,"head_dim":256,"hidden_activation":"gelu_pytorch_tanh",
                     "attn_logit_softcapping":50,"final_logit_softcapping":30,"sliding_window":4096})",
                 read_gemma2}},
    .ggufs = {{"gemma2", {.activation = "gelu_new"}, read_gguf}},
    .shape = sandwich_gemma_shape,
    .names = gemma2_names,
    .row = {.name = "Gemma 2: 2B, 9B, 27B",
            .differs = "soft caps of scores and logits, norms before and after each sublayer, windows in "
                       "every second layer",
            .size = "9B",
            .config = R"({"model_type":"gemma2","num_hidden_layers":42,"num_attention_heads":16,
                      "num_key_value_heads":8})"}};

}  // namespace pagoda::gemma2
