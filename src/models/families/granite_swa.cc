// Granite SWA: Granite with windows in three of four layers, and a score without a value for each head.
#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

// The first of four layers sees everything, the others have a window. Each may rotate by a base of its own,
// or not at all: base 0.
void read_granite_swa(Hyperparameters& h, ModelConfig& config) {
  read_common(h,
              {.vocab_size = 100352,
               .hidden_size = 2560,
               .intermediate_size = 8192,
               .num_layers = 24,
               .num_heads = 20,
               .num_kv_heads = 4,
               .max_positions = 8192,
               .norm_eps = 1e-5f,
               .rope_theta = 10000.0f,
               .bos = 100257,
               .eos = 100257,
               .tied = true},
              config);
  read_granite_scales(h, config);
  config.sliding_window = h.integer("sliding_window", 128);
  if (!read_layer_types(h, config))
    for (std::int32_t layer = 0; layer < listed_layers(config); ++layer)
      config.window_layers.push_back(layer % 4 != 0);
  if (h.find("layer_rope_theta") != nullptr) read_layer_thetas(h, config);
  finish_windows(h, config);
}

// Windows in three of four layers, and a score without a value for each head.
Result<DecoderConfig> describe_swa(const ModelConfig& config) {
  auto decoder = common_description(config);
  if (!decoder) return decoder.error();
  for (LayerConfig& layer : decoder->layers) layer.attention()->sinks = true;
  return decoder;
}

WeightNames swa_names(ModelFormat format) {
  WeightNames names = llama_names(format);
  names.sinks = format == ModelFormat::gguf ? "attn_sinks.weight" : "self_attn.sinks";
  return names;
}

// The first of four layers sees everything. The file has no other base for windows.
void read_gguf(Hyperparameters& h, ModelConfig& config) {
  read_gguf_common(h, {.interleaved_rows = true}, config);
  read_granite_scales(h, config);
  if (h.written("attention.sliding_window_pattern"))
    read_gguf_window_pattern(h, 4, config);
  else
    for (std::int32_t layer = 0; layer < listed_layers(config); ++layer)
      config.window_layers.push_back(layer % 4 != 0);
  if (config.sliding_window == 0) config.window_layers.clear();
  config.rope_layers = h.booleans("attention.rope_pattern");
}

}  // namespace

PAGODA_FAMILY(granite_swa) = {
    .architecture = "granite_swa",
    .configs = {{"GraniteSWAForCausalLM", "GraniteSWAModel", "granite_swa", read_granite_swa}},
    .ggufs = {{"granite_swa", read_gguf}},
    .describe = describe_swa,
    .names = swa_names,
    .row = {.name = "Granite SWA (swash) 2B",
            .differs = "Granite with windows in three of four layers and a sink for each head",
            .checked = "transformers",
            .size = "2B",
            .config = R"({"model_type":"granite_swa"})"}};

}  // namespace pagoda
