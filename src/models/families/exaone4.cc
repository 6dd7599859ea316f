// EXAONE 4: Llama with norms behind each half and of every query and key head; where some layers have
// windows, the others do not rotate.
#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

// Rotates where there is a window, or everywhere if there is none.
void read_exaone4(Hyperparameters& h, ModelConfig& config) {
  read_common(h,
              {.vocab_size = 102400,
               .hidden_size = 4096,
               .intermediate_size = 16384,
               .num_layers = 32,
               .num_heads = 32,
               .max_positions = 2048,
               .norm_eps = 1e-5f,
               .rope_theta = 10000.0f,
               .bos = 0,
               .eos = 2},
              config);
  config.sliding_window = h.written("sliding_window") ? h.integer("sliding_window", 0) : 4096;
  const bool windows = config.sliding_window > 0;
  const json::value* pattern = h.find("sliding_window_pattern");
  if (!windows || (pattern != nullptr && pattern->is_string())) {  // "LLLG"
    const std::string_view kinds = windows ? std::string_view(pattern->get_string()) : "G";
    if (!read_layer_types(h, config)) {
      if (kinds.empty()) return h.fail("sliding_window_pattern", "not empty");
      for (std::int32_t layer = 0; layer < listed_layers(config); ++layer)
        config.window_layers.push_back(kinds[static_cast<std::size_t>(layer) % kinds.size()] == 'L');
    }
    finish_windows(h, config);
  } else {
    read_window_pattern(h, config, 4);
  }
  if (windows) rotate_windows_alone(config);
}

Result<DecoderConfig> describe(const ModelConfig& config) {
  return norms_behind_description(config, QueryKeyNorm::per_head);
}

void read_gguf(Hyperparameters& h, ModelConfig& config) {
  read_gguf_common(h, {}, config);
  if (config.sliding_window == 0) return;
  read_gguf_window_pattern(h, 4, config);
  config.rope_layers = config.window_layers;
}

}  // namespace

PAGODA_FAMILY(exaone4) = {
    .architecture = "exaone4",
    .configs = {{"Exaone4ForCausalLM", "Exaone4Model", "exaone4", read_exaone4}},
    .wrappers = {{"Exaone4_5_ForConditionalGeneration", "exaone4_5", "exaone4"}},
    .ggufs = {{"exaone4", read_gguf}},
    .describe = describe,
    .names = norms_behind_names,
    .row = {.name = "EXAONE 4: 1.2B, 32B",
            .differs = "norms behind each half, windows, which alone rotate",
            .checked = "transformers",
            .size = "32B",
            .config = R"({"model_type":"exaone4","hidden_size":5120,"num_hidden_layers":64,
                       "num_attention_heads":40,"num_key_value_heads":8,"max_position_embeddings":131072})"}};

}  // namespace pagoda
