// EXAONE 4: Llama with norms after each sublayer and norms of query and key heads. If some layers have
// windows, only these rotate.
#include "models/reading.h"

namespace pagoda::exaone4 {

// Rotates layers with a window, or all if there are none.
void read_exaone4(Hyperparameters& h, ModelInfo& model) {
  const std::int32_t window = read_window(h);
  const json::value* pattern = h.find("sliding_window_pattern");
  if (window == 0 || (pattern != nullptr && pattern->is_string())) {  // "LLLG"
    const std::string_view kinds = window != 0 ? std::string_view(pattern->get_string()) : "G";
    if (kinds.empty()) return h.fail("sliding_window_pattern", "not empty");
    use_windows(h, window,
                read_window_layers_or(h, model,
                                      [&](std::int32_t layer) {
                                        return kinds[static_cast<std::size_t>(layer) % kinds.size()] == 'L';
                                      }),
                model);
  } else {
    read_window_pattern(h, 4, model, window);
  }
  if (window != 0) rotate_windows_alone(model.decoder);
}

void shape(DecoderConfig& decoder) {
  norm_branches_alone(decoder);
  norm_heads(decoder);
}

extern const Family family = {
    .configs = {{"Exaone4ForCausalLM", "exaone4",
                 R"({"vocab_size":102400,"intermediate_size":16384,"bos_token_id":0,"eos_token_id":2,
                     "sliding_window":4096})",
                 read_exaone4}},
    .wrappers = {{"Exaone4_5_ForConditionalGeneration", "exaone4_5", "exaone4"}},
    .ggufs = {{"exaone4", {}, read_gguf_rotating_windows}},
    .shape = shape,
    .names = post_norm_names,
    .row = {.name = "EXAONE 4: 1.2B, 32B",
            .differs = "norms after each sublayer, windows, RoPE in window layers only",
            .size = "32B",
            .config = R"({"model_type":"exaone4","hidden_size":5120,"num_hidden_layers":64,
                          "num_attention_heads":40,"num_key_value_heads":8,
                          "max_position_embeddings":131072})"}};

}  // namespace pagoda::exaone4
