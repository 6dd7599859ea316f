// AFMoE (Arcee's Trinity): a scaled embedding, norms on both sides of each half, of every query and key head,
// windows, which alone rotate, mixtures behind dense layers, and what is attended scaled by the sigmoid of a
// matrix of its own.
#include <algorithm>
#include <cmath>

#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

// Three of four layers have a window, and they alone rotate.
void read_afmoe(Hyperparameters& h, ModelConfig& config) {
  read_common(h,
              {.vocab_size = 200192,
               .hidden_size = 2048,
               .intermediate_size = 6144,
               .num_layers = 32,
               .num_heads = 16,
               .max_positions = 16384,
               .norm_eps = 1e-5f,
               .rope_theta = 10000.0f,
               .head_size = 128},
              config);
  if (h.boolean("mup_enabled", false))
    config.embedding_scale = std::sqrt(static_cast<float>(config.hidden_size));
  config.sliding_window = h.integer("sliding_window", 1024);
  read_window_pattern(h, config, h.integer("global_attn_every_n_layers", 4));
  rotate_windows_alone(config);
  ExpertsConfig& experts = config.experts;
  experts.count = num_experts(h, 64);
  experts.per_token = h.integer("num_experts_per_tok", 6);
  experts.intermediate_size = h.integer("moe_intermediate_size", 1408);
  experts.shared_intermediate_size = shared_size(h, "num_shared_experts", 2, experts);
  experts.score = ExpertScore::sigmoid;
  experts.renormalize = true;
  experts.scale = h.number("route_scale", 1);
  const std::int32_t dense = h.integer("num_dense_layers", 1);
  for (std::int32_t layer = 0; layer < listed_layers(config); ++layer)
    experts.layers.push_back(layer >= dense);
  // As the first files of the family have it beside what they mean.
  h.only("score_func", "sigmoid");
  h.only("route_norm", true);
  h.only("n_group", 1);
  h.only("topk_group", 1);
  h.find("num_expert_groups");
  h.find("num_limited_groups");
  h.find("load_balance_coeff");
  h.find("use_grouped_mm");
}

Result<DecoderConfig> describe_afmoe(const ModelConfig& config) {
  auto decoder = gated_description(config, OutputGate::sigmoid);
  if (!decoder) return decoder.error();
  for (LayerConfig& layer : decoder->layers)
    layer.mixer_norms.branch = layer.feed_forward_norms.branch = true;
  return decoder;
}

WeightNames afmoe_names(ModelFormat format) {
  WeightNames names = gemma2_names(format);
  names.output_gate = format == ModelFormat::gguf ? "attn_gate" : "self_attn.gate_proj";
  if (format == ModelFormat::gguf) return names;
  names.mlp_norm = "pre_mlp_layernorm";
  names.mlp_branch_norm = "post_mlp_layernorm";
  names.experts = hf_expert_names("mlp", "shared_experts");
  for (ExpertNames& form : names.experts) {
    form.router = "mlp.router.gate";
    form.correction = "mlp.expert_bias";
  }
  return names;
}

// The file does not say that the embedding is scaled; layers without a window do not rotate.
void read_gguf(Hyperparameters& h, ModelConfig& config) {
  read_gguf_common(h, {.experts = {.known = true, .score = ExpertScore::sigmoid}}, config);
  config.embedding_scale = std::sqrt(static_cast<float>(std::max(config.hidden_size, 0)));
  read_gguf_window_pattern(h, 4, config);
  rotate_windows_alone(config);
  read_layers_with_routers(h, config);
}

}  // namespace

PAGODA_FAMILY(afmoe) = {
    .architecture = "afmoe",
    .configs = {{"AfmoeForCausalLM", "AfmoeModel", "afmoe", read_afmoe}},
    .ggufs = {{"afmoe", read_gguf}},
    .describe = describe_afmoe,
    .names = afmoe_names,
    .row = {.name = "Trinity (AFMoE): Nano 6B-A1B, Mini 26B-A3B",
            .differs = "scaled embedding, norms on both sides of each half, gates of what is attended, "
                       "windows, which alone rotate, sigmoid routing with a correction behind dense layers",
            .checked = "transformers",
            .size = "Mini",
            .config = R"({"model_type":"afmoe","num_key_value_heads":4})"}};

}  // namespace pagoda
