// Gemma 3: Llama with norms before and after each sublayer, norms of query and key heads, GELU, a scaled
// embedding, and windows: five of six layers see only the last tokens and have their own RoPE base.
#include "models/reading.h"

namespace pagoda::gemma3 {

void read_gemma3(Hyperparameters& h, ModelInfo& model) {
  read_layers(h, model);
  offset_norms(model.decoder);
  read_query_scale(h, model.decoder);
  h.find("attn_logit_softcapping");  // read but not used by transformers
  model.decoder.logit_softcap = h.number("final_logit_softcapping", 0);
  read_rope_by_layer(h, model, 1000000.0f, 10000.0f);
  std::int32_t window = h.integer("sliding_window");
  if (h.boolean("use_bidirectional_attention", false)) {  // EmbeddingGemma
    see_both_sides(model.decoder);
    window = window / 2 + 1;  // the total window, half of it on each side
  }
  h.find("_sliding_window_pattern");
  read_window_pattern(h, 6, model, window);
}

void read_gguf(Hyperparameters& h, ModelInfo& model) {
  rotate_windows_by(h.number("rope.freq_base_swa", 10000.0f), model);
  read_gguf_window_pattern(h, 6, model);
  // The file does not say that the 27B model, the only one with 62 layers, scales by its width per head.
  if (model.decoder.num_layers() == 62) scale_attention_by_width(model.decoder);
}

extern const Family family = {
    .configs = {{"Gemma3ForCausalLM", "gemma3_text",
                 R"({"vocab_size":262208,"hidden_size":2304,"intermediate_size":9216,"num_hidden_layers":26,
                     "num_attention_heads":8,"max_position_embeddings":131072,"num_key_value_heads":4,
                     "rms_norm_eps":1e-6,"bos_token_id":2,"eos_token_id":1,"pad_token_id":0,
                     "tie_word_embeddings":true,"head_dim":256,"hidden_activation":"gelu_pytorch_tanh",
                     "sliding_window":4096})",
                 read_gemma3, Reads::all}},
    .wrappers = {{"Gemma3ForConditionalGeneration", "gemma3", "gemma3_text"}},
    .ggufs = {{"gemma3", {.activation = "gelu_new"}, read_gguf}},
    .shape = gemma3_shape,
    .names = gemma2_names,
    .row = {.name = "Gemma 3: 270M to 27B (text)",
            .differs = "norms before and after each sublayer, two RoPE bases, windows in five of six layers, "
                       "scaled embedding",
            .checked = "transformers, the real 270M",
            .size = "4B",
            .config = R"({"model_type":"gemma3_text","num_hidden_layers":34,"sliding_window":1024})"}};

}  // namespace pagoda::gemma3
