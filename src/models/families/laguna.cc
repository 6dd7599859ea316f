// Laguna (Poolside): Qwen 3 with mixtures, a gate of each head or element by softplus, windows with a
// rotation of their own, and numbers of heads by layer.
#include <algorithm>
#include <ranges>

#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read_laguna(Hyperparameters& h, ModelConfig& config) {
  read_common(h,
              {.vocab_size = 100352,
               .hidden_size = 2048,
               .intermediate_size = 8192,
               .num_layers = 40,
               .num_heads = 48,
               .num_kv_heads = 8,
               .max_positions = 131072,
               .norm_eps = 1e-6f,
               .rope_theta = 500000.0f,
               .head_size = 128,
               .partial = 0.5f,
               .local_theta = 10000.0f},
              config);
  read_listed_windows(h, 512, config);
  if (h.find("num_attention_heads_per_layer") != nullptr) {
    LayerSizes layer = {.num_kv_heads = config.num_kv_heads,
                        .head_size = config.head_size,
                        .intermediate_size = config.intermediate_size};
    for (const float heads : h.numbers("num_attention_heads_per_layer")) {
      layer.num_heads = static_cast<std::int32_t>(std::clamp(heads, -1.0f, 65536.0f));
      config.layer_sizes.push_back(layer);
    }
    if (config.layer_sizes.empty()) return;  // the list was none
    const auto heads = [](const LayerSizes& each) { return each.num_heads; };
    const auto [least, most] = std::ranges::minmax(config.layer_sizes | std::views::transform(heads));
    config.num_heads = most;
    if (least == most) config.layer_sizes.clear();
  }
  const json::value* gating = h.find("gating");
  config.head_gates = gating == nullptr || *gating == true || *gating == "per-head";
  if (!config.head_gates && *gating != "per-element")
    h.refuse(concat("config.json: 'gating' = ", show(*gating),
                    " is not supported; supported: \"per-head\", \"per-element\""));
  ExpertsConfig& experts = config.experts;
  experts.count = num_experts(h, 256);
  experts.per_token = h.integer("num_experts_per_tok", 8);
  experts.intermediate_size = h.integer("moe_intermediate_size", 512);
  experts.shared_intermediate_size = h.integer("shared_expert_intermediate_size", 512);
  experts.score = ExpertScore::sigmoid;
  experts.renormalize = true;
  experts.scale = h.number("moe_routed_scaling_factor", 1);
  read_mlp_types(h, 1, config);
  h.only("moe_apply_router_weight_on_input", false);
  if (h.number("moe_router_logit_softcapping", 0) != 0)
    h.refuse("config.json: 'moe_router_logit_softcapping' is not supported");
}

Result<DecoderConfig> describe_laguna(const ModelConfig& config) {
  return gated_description(config, config.head_gates ? OutputGate::softplus_of_head : OutputGate::softplus);
}

WeightNames laguna_names(ModelFormat format) {
  WeightNames names = llama_names(format);
  names.output_gate = format == ModelFormat::gguf ? "attn_gate" : "self_attn.g_proj";
  if (format == ModelFormat::gguf) return names;
  names.experts = hf_expert_names("mlp", "shared_expert");
  for (ExpertNames& form : names.experts) form.correction = "mlp.experts.e_score_correction_bias";
  return names;
}

// And by as much of a head as the file says. Of four layers the first sees everything. How wide the gates are
// shows in their tensors.
void read_gguf(Hyperparameters& h, ModelConfig& config) {
  read_gguf_common(h, {.experts = {.known = true, .score = ExpertScore::sigmoid}}, config);
  read_local_theta(h, config);
  if (!h.written("attention.sliding_window_pattern"))
    for (std::size_t layer = 0; layer < config.window_layers.size(); ++layer)
      config.window_layers[layer] = layer % 4 != 0;
  config.rope_local_rotary_size = h.integer("rope.dimension_count_swa", config.rotary_size);
  const std::int64_t heads = config.layer_sizes.empty() ? config.num_heads : config.layer_sizes[0].num_heads;
  for (const GgufTensor& tensor : h.gguf()->tensor_list())
    if (tensor.name == "blk.0.attn_gate.weight") config.head_gates = tensor.shape.front() == heads;
}

}  // namespace

PAGODA_FAMILY(laguna) = {
    .architecture = "laguna",
    .configs = {{"LagunaForCausalLM", "LagunaModel", "laguna", read_laguna}},
    .ggufs = {{"laguna", read_gguf}},
    .describe = describe_laguna,
    .names = laguna_names,
    .row = {.name = "Laguna XS: 33B-A3B",
            .differs = "norms of queries and keys, gates of each head, windows with more heads and a "
                       "rotation of their own, sigmoid routing with a correction",
            .checked = "transformers",
            .size = "XS",
            .config = R"({"model_type":"laguna",
                       "layer_types":["full_attention","sliding_attention","sliding_attention","sliding_attention","full_attention","sliding_attention","sliding_attention","sliding_attention","full_attention","sliding_attention","sliding_attention","sliding_attention","full_attention","sliding_attention","sliding_attention","sliding_attention","full_attention","sliding_attention","sliding_attention","sliding_attention","full_attention","sliding_attention","sliding_attention","sliding_attention","full_attention","sliding_attention","sliding_attention","sliding_attention","full_attention","sliding_attention","sliding_attention","sliding_attention","full_attention","sliding_attention","sliding_attention","sliding_attention","full_attention","sliding_attention","sliding_attention","sliding_attention"]})"}};

}  // namespace pagoda
