// Command R7B, A and Aya (Cohere): Command R with windows in three of four layers; only these rotate.
#include "models/reading.h"

namespace pagoda::cohere2 {

void read(Hyperparameters& h, ModelInfo& model) {
  read_cohere(h, model);
  h.only("use_qk_norm", false);
  read_window_pattern(h, 4, model);
  rotate_windows_alone(model.decoder);
}

extern const Family family = {
    .configs = {{"Cohere2ForCausalLM", "cohere2",
                 R"({"vocab_size":256000,"hidden_size":8192,"intermediate_size":22528,"num_hidden_layers":40,
                     "num_attention_heads":64,"max_position_embeddings":8192,"bos_token_id":5,
                     "eos_token_id":255001,"pad_token_id":0,"tie_word_embeddings":true,"layer_norm_eps":1e-5,
                     "logit_scale":0.0625,"rope_interleave":true,"sliding_window":4096})",
                 read}},
    .wrappers = {{"AyaVisionForConditionalGeneration", "aya_vision", "cohere2"},
                 {"Cohere2VisionForConditionalGeneration", "cohere2_vision", "cohere2"}},
    .ggufs = {{"cohere2", {.layer_norm = true, .interleaved_rows = true, .parallel = true}, read}},
    .shape = layer_norms,
    .row = {.name = "Command R7B, A, Aya",
            .differs = "layer norms, parallel attention and feed-forward, RoPE on adjacent pairs, windows, "
                       "RoPE in window layers only",
            .size = "R7B",
            .config = R"({"model_type":"cohere2","hidden_size":4096,"num_hidden_layers":32,
                          "num_attention_heads":32,"num_key_value_heads":8,
                          "max_position_embeddings":132096})"}};

}  // namespace pagoda::cohere2
