// SmolLM3: Llama whose every fourth layer does not rotate.
#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read_smollm3(Hyperparameters& h, ModelConfig& config) {
  read_common(h,
              {.vocab_size = 128256,
               .hidden_size = 2048,
               .intermediate_size = 11008,
               .num_layers = 36,
               .num_heads = 16,
               .num_kv_heads = 4,
               .max_positions = 32768,
               .norm_eps = 1e-6f,
               .rope_theta = 2000000.0f,
               .bos = 128000,
               .eos = 128001,
               .pad = 128004,
               .tied = true},
              config);
  const std::int32_t interval = h.integer("no_rope_layer_interval", 4);
  if (interval < 1) return h.fail("no_rope_layer_interval", "a positive integer");
  if (h.find("no_rope_layers") != nullptr) {
    for (const bool rotates : h.flags("no_rope_layers", listed_layers(config)))
      config.rope_layers.push_back(rotates);  // 1: rotates, whatever the name says
  } else {
    for (std::int32_t layer = 0; layer < listed_layers(config); ++layer)
      config.rope_layers.push_back((layer + 1) % interval != 0);
  }
  if (!h.boolean("use_sliding_window", false)) return;
  config.sliding_window = h.integer("sliding_window", 0);
  if (!read_layer_types(h, config))
    for (const bool rotates : config.rope_layers) config.window_layers.push_back(!rotates);
  finish_windows(h, config);
}

void read_gguf(Hyperparameters& h, ModelConfig& config) {
  read_gguf_common(h, {.interleaved_rows = true}, config);
  rotate_three_of_four(config);
}

}  // namespace

PAGODA_FAMILY(smollm3) = {.architecture = "smollm3",
                          .configs = {{"SmolLM3ForCausalLM", "SmolLM3Model", "smollm3", read_smollm3}},
                          .ggufs = {{"smollm3", read_gguf}},
                          .describe = common_description,
                          .names = llama_names,
                          .row = {.name = "SmolLM3 3B",
                                  .differs = "every fourth layer does not rotate",
                                  .checked = "own reference in numpy",
                                  .size = "3B",
                                  .config = R"({"model_type":"smollm3"})"}};

}  // namespace pagoda
