// SmolLM3: Llama without RoPE in every fourth layer.
#include "models/reading.h"

namespace pagoda::smollm3 {

void read_smollm3(Hyperparameters& h, ModelInfo& model) {
  const std::int32_t interval = h.integer("no_rope_layer_interval", 4);
  if (interval < 1) return h.fail("no_rope_layer_interval", "a positive integer");
  const std::vector<bool> rotating =
      h.find("no_rope_layers") != nullptr
          ? h.flags("no_rope_layers", model.decoder.num_layers())  // 1: it rotates, despite the name
          : layers_where(model, [&](std::int32_t layer) { return (layer + 1) % interval != 0; });
  if (!h.status().ok()) return;
  rotate_layers(h, rotating, model.decoder);
  if (!h.boolean("use_sliding_window", false)) return;
  use_windows(h, h.integer("sliding_window", 0),
              read_window_layers_or(
                  h, model, [&](std::int32_t layer) { return !rotating[static_cast<std::size_t>(layer)]; }),
              model);
}

extern const Family family = {
    .configs = {{"SmolLM3ForCausalLM", "smollm3",
                 R"({"vocab_size":128256,"hidden_size":2048,"intermediate_size":11008,"num_hidden_layers":36,
                     "num_attention_heads":16,"num_key_value_heads":4,"max_position_embeddings":32768,
                     "rms_norm_eps":1e-6,"rope_theta":2000000,"bos_token_id":128000,"eos_token_id":128001,
                     "pad_token_id":128004,"tie_word_embeddings":true})",
                 read_smollm3}},
    .ggufs = {{"smollm3",
               {.interleaved_rows = true},
               [](Hyperparameters&, ModelInfo& model) { rotate_three_of_four(model.decoder); }}},
    .row = {.name = "SmolLM3 3B",
            .differs = "no RoPE in every fourth layer",
            .checked = "own reference in numpy",
            .size = "3B"}};

}  // namespace pagoda::smollm3
