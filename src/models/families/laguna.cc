// Laguna (Poolside): Qwen 3 with mixtures, a softplus gate per head or element, windows with their own RoPE
// base, and a number of heads per layer.
#include <algorithm>

#include "models/reading.h"

namespace pagoda::laguna {

void read_laguna(Hyperparameters& h, ModelInfo& model) {
  DecoderConfig& decoder = model.decoder;
  read_listed_windows(h, model);
  if (h.find("num_attention_heads_per_layer") != nullptr) {
    const std::vector<float> heads = h.numbers("num_attention_heads_per_layer");
    if (heads.size() != decoder.layers.size()) return h.corrupt("sizes are not given for every layer");
    for (std::size_t index = 0; index < heads.size(); ++index)
      decoder.layers[index].attention()->num_heads =
          static_cast<std::int32_t>(std::clamp(heads[index], -1.0f, 65536.0f));
  }
  const json::value* gating = h.find("gating");
  const bool per_head = gating == nullptr || *gating == true || *gating == "per-head";
  if (!per_head && *gating != "per-element")
    h.refuse(concat("config.json: 'gating' = ", show(*gating),
                    " is not supported; supported: \"per-head\", \"per-element\""));
  gate_outputs(decoder, per_head ? OutputGate::softplus_of_head : OutputGate::softplus);
  MixtureConfig mixture = read_experts(h, model);
  mixture.routing.score = RouterScore::sigmoid;
  mixture.routing.renormalize = true;
  mixture.routing.scale = h.number("moe_routed_scaling_factor", 1);
  use_mixtures(mixture, read_mlp_types(h, 1, model), model);
  h.only("moe_apply_router_weight_on_input", false);
  if (h.number("moe_router_logit_softcapping", 0) != 0)
    h.refuse("config.json: 'moe_router_logit_softcapping' is not supported");
}

void laguna_names(WeightNames& names) {
  names.output_gate = "self_attn.g_proj";
  names.experts.push_back(mlx_experts(names.experts.front(), "mlp.switch_mlp"));
  names.experts.back().router = "mlp.gate.proj";
  names.experts.back().correction = "mlp.gate.e_score_correction_bias";
}

// The first of four layers has full attention; windows have their own base and rotary size. The width of the
// gates follows from their tensors.
void read_gguf(Hyperparameters& h, ModelInfo& model) {
  const bool written = h.written("attention.sliding_window_pattern");
  read_gguf_window_pattern(h, 4, model, written ? SeesAll::last : SeesAll::first);
  const RopeConfig& rope = model.decoder.ropes.front();
  rotate_windows_by(h.number("rope.freq_base_swa", rope.theta), model,
                    h.integer("rope.dimension_count_swa", rope.rotary_size));
  const std::int64_t heads = model.decoder.layers.front().attention()->num_heads;
  for (const FileTensor& tensor : h.gguf()->tensor_list())
    if (tensor.name == "blk.0.attn_gate.weight")
      gate_outputs(model.decoder,
                   tensor.shape.front() == heads ? OutputGate::softplus_of_head : OutputGate::softplus);
}

extern const Family family = {
    .configs = {{"LagunaForCausalLM", "laguna",
                 R"({"vocab_size":100352,"hidden_size":2048,"intermediate_size":8192,"num_hidden_layers":40,
                     "num_attention_heads":48,"num_key_value_heads":8,"max_position_embeddings":131072,
                     "rms_norm_eps":1e-6,"rope_theta":500000,"head_dim":128,"partial_rotary_factor":0.5,
                     "local_rope_theta":10000,"sliding_window":512,"num_experts":256,"num_experts_per_tok":8,
                     "moe_intermediate_size":512,"shared_expert_intermediate_size":512})",
                 read_laguna}},
    .ggufs = {{"laguna", {.experts = {.known = true, .score = RouterScore::sigmoid}}, read_gguf}},
    .shape = norm_heads,
    .names = laguna_names,
    .folder_experts =
        ExpertPlaces{.shared = "shared_expert", .correction = "mlp.experts.e_score_correction_bias"},
    .row = {.name = "Laguna XS: 33B-A3B",
            .differs = "norms of queries and keys, gates of each head, windows with more heads and their own "
                       "RoPE base, sigmoid routing with a correction",
            .size = "XS",
            .config = R"({"model_type":"laguna",
                          "layer_types":["full_attention","sliding_attention","sliding_attention","sliding_attention","full_attention","sliding_attention","sliding_attention","sliding_attention","full_attention","sliding_attention","sliding_attention","sliding_attention","full_attention","sliding_attention","sliding_attention","sliding_attention","full_attention","sliding_attention","sliding_attention","sliding_attention","full_attention","sliding_attention","sliding_attention","sliding_attention","full_attention","sliding_attention","sliding_attention","sliding_attention","full_attention","sliding_attention","sliding_attention","sliding_attention","full_attention","sliding_attention","sliding_attention","sliding_attention","full_attention","sliding_attention","sliding_attention","sliding_attention"]})"}};

}  // namespace pagoda::laguna
