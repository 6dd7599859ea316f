// gpt-oss: Llama with mixtures in every layer, a score without a value for each head, windows in every second
// layer, biases everywhere, and a gated product whose factors are cut off. Source: arXiv 2508.10925.
#include <cmath>

#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read_gpt_oss(Hyperparameters& h, ModelConfig& config) {
  Defaults absent = {.vocab_size = 201088,
                     .hidden_size = 2880,
                     .intermediate_size = 2880,
                     .num_layers = 36,
                     .num_heads = 64,
                     .num_kv_heads = 8,
                     .max_positions = 131072,
                     .norm_eps = 1e-5f,
                     .rope_theta = 150000.0f,
                     .head_size = 64};
  read_common(h, absent, config);
  if (h.object("rope_scaling") == nullptr && h.object("rope_parameters") == nullptr) {
    config.rope_scaling = RopeScaling::yarn;
    config.rope_factor = 32;
    config.rope_original_positions = 4096;
    config.rope_truncate = false;
    config.rope_attention_factor = 0.1f * std::log(32.0f) + 1;
  }
  config.sliding_window = h.integer("sliding_window", 128);
  if (!read_layer_types(h, config))
    for (std::int32_t layer = 0; layer < listed_layers(config); ++layer)
      config.window_layers.push_back(layer % 2 == 0);
  finish_windows(h, config);
  h.only("swiglu_limit", 7.0);
  h.only("swiglu_alpha", 1.702);
  ExpertsConfig& experts = config.experts;
  experts.count = num_experts(h, 128);
  experts.per_token = integer_of(h, {"num_experts_per_tok", "experts_per_token"}, 4);
  experts.intermediate_size = config.intermediate_size;
  experts.score = ExpertScore::softmax_of_chosen;
}

Result<DecoderConfig> describe(const ModelConfig& config) {
  auto decoder = common_description(config);
  if (!decoder) return decoder.error();
  for (LayerConfig& layer : decoder->layers) {
    layer.attention()->sinks = true;
    if (MixtureConfig* mixture = layer.mixture()) mixture->expert.activation = Activation::clamped_silu;
  }
  return decoder;
}

WeightNames names(ModelFormat format) {
  WeightNames names = llama_names(format);
  if (format == ModelFormat::gguf) {
    names.mlp_norm = "post_attention_norm";
    names.sinks = "attn_sinks.weight";
    return names;
  }
  names.sinks = "self_attn.sinks";
  const ExpertNames values = {.router = "mlp.router",
                              .down = "mlp.experts.down_proj",
                              .gate_up = "mlp.experts.gate_up_proj",
                              .weight = "",
                              .bias = "_bias",
                              .transposed = true,
                              .interleaved = true};
  ExpertNames blocks = values;
  blocks.weight = "_blocks";
  blocks.scales = "_scales";
  blocks.transposed = false;
  names.experts = {blocks, values};
  return names;
}

// The file does not say that the blend of frequencies begins and ends between whole dimensions.
void read_gguf(Hyperparameters& h, ModelConfig& config) {
  read_gguf_common(
      h, {.experts = {.known = true, .score = ExpertScore::softmax_of_chosen, .renormalize = false}}, config);
  config.rope_truncate = false;
  read_gguf_window_pattern(h, 2, config);
}

}  // namespace

PAGODA_FAMILY(gpt_oss) = {.architecture = "gpt-oss",
                          .configs = {{"GptOssForCausalLM", "GptOssModel", "gpt_oss", read_gpt_oss}},
                          .ggufs = {{"gpt-oss", read_gguf}},
                          .describe = describe,
                          .names = names,
                          .row = {.name = "gpt-oss: 20B, 120B",
                                  .differs = "mixtures with biases, gates and ups cut off at 7, a sink for "
                                             "each head, windows in every second layer, YaRN",
                                  .checked = "transformers",
                                  .size = "20B",
                                  .config = R"({"model_type":"gpt_oss","num_hidden_layers":24})",
                                  .note = "experts in MXFP4 or as values"}};

}  // namespace pagoda
