// Granite SWA: Granite with windows in three of four layers, and attention sinks (a score without a value per
// head).
#include "models/reading.h"

namespace pagoda::granite_swa {

// The first of four layers has full attention, the others have a window. Each may have its own RoPE base, or
// not rotate (base 0).
void read_granite_swa(Hyperparameters& h, ModelInfo& model) {
  read_granite_scales(h, model);
  const std::vector<bool> windows =
      read_window_layers_or(h, model, [](std::int32_t layer) { return layer % 4 != 0; });
  use_windows(h, h.integer("sliding_window"), windows, model);
  if (h.find("layer_rope_theta") != nullptr) read_layer_thetas(h, windows, model);
}

void shape(DecoderConfig& decoder) {
  each_attention(decoder, [](AttentionConfig& attention) { attention.sinks = true; });
}

void swa_names(WeightNames& names) { names.sinks = "self_attn.sinks"; }

// The first of four layers has full attention. The file has no separate base for windows.
void read_gguf(Hyperparameters& h, ModelInfo& model) {
  read_granite_scales(h, model);
  const bool written = h.written("attention.sliding_window_pattern");
  read_gguf_window_pattern(h, 4, model, written ? SeesAll::last : SeesAll::first);
  const std::vector<bool> rotating = h.booleans("attention.rope_pattern");
  if (!rotating.empty()) rotate_layers(h, rotating, model.decoder);
}

extern const Family family = {
    .configs = {{"GraniteSWAForCausalLM", "granite_swa",
                 R"({"vocab_size":100352,"hidden_size":2560,"intermediate_size":8192,"num_hidden_layers":24,
                     "num_attention_heads":20,"num_key_value_heads":4,"max_position_embeddings":8192,
                     "bos_token_id":100257,"eos_token_id":100257,"tie_word_embeddings":true,
                     "sliding_window":128})",
                 read_granite_swa}},
    .ggufs = {{"granite_swa", {.interleaved_rows = true}, read_gguf}},
    .shape = shape,
    .names = swa_names,
    .row = {.name = "Granite SWA (swash) 2B",
            .differs = "Granite with windows in three of four layers and attention sinks",
            .size = "2B"}};

}  // namespace pagoda::granite_swa
