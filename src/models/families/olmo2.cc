// OLMo 2 and 3: Llama with norms after each sublayer instead of before, and norms over all query heads and
// over all key heads.
#include "models/reading.h"

namespace pagoda::olmo2 {

// Three of four layers have a window; only the others scale their rotation.
void read_olmo3(Hyperparameters& h, ModelInfo& model) { read_window_pattern(h, 4, model); }

void shape(DecoderConfig& decoder) {
  norm_branches_alone(decoder);
  norm_heads_together(decoder);
}

// OLMo 3 has the same name, with windows in three of four layers; only layers without a window scale their
// rotation.
void read_gguf(Hyperparameters& h, ModelInfo& model) {
  if (model.decoder.layers.front().attention()->sliding_window == 0) return;
  read_gguf_window_pattern(h, 4, model);
  rotate_windows_by(h.number("rope.freq_base_swa", model.decoder.ropes.front().theta), model);
}

extern const Family family = {
    .configs = {{"Olmo2ForCausalLM", "olmo2",
                 R"({"vocab_size":50304,"intermediate_size":11008,"eos_token_id":50279,"pad_token_id":1})"},
                {"Olmo3ForCausalLM", "olmo3",
                 R"({"vocab_size":50304,"intermediate_size":11008,"rope_theta":500000,"eos_token_id":50279,
                     "pad_token_id":1,"local_rope_theta":500000,"sliding_window":4096})",
                 read_olmo3}},
    .ggufs = {{"olmo2", {}, read_gguf}},
    .shape = shape,
    .names = post_norm_names,
    .row = {.name = "OLMo 2, 3: 1B to 32B",
            .differs = "norms after each sublayer and over all heads; 3: windows",
            .size = "3 7B",
            .config = R"({"model_type":"olmo3","max_position_embeddings":65536})"}};

}  // namespace pagoda::olmo2
