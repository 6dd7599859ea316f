// AFMoE (Arcee's Trinity): a scaled embedding, norms before and after each sublayer, norms of query and key
// heads, windows, RoPE only in layers with windows, mixtures after dense layers, and attention output scaled
// by the sigmoid of a separate product.
#include <algorithm>
#include <cmath>

#include "models/reading.h"

namespace pagoda::afmoe {

void scale_by_width(DecoderConfig& decoder) {
  decoder.embedding_scale = std::sqrt(static_cast<float>(std::max(decoder.hidden_size, 0)));
}

void read_windows(Hyperparameters& h, ModelInfo& model) {
  read_window_pattern(h, h.integer("global_attn_every_n_layers", 4), model);
  rotate_windows_alone(model.decoder);
}

void read_afmoe(Hyperparameters& h, ModelInfo& model) {
  if (h.boolean("mup_enabled", false)) scale_by_width(model.decoder);
  read_windows(h, model);
  MixtureConfig mixture = read_experts(h, model);
  mixture.shared_intermediate_size = shared_size(h, "num_shared_experts", mixture);
  mixture.routing.score = RouterScore::sigmoid;
  mixture.routing.renormalize = true;
  mixture.routing.scale = h.number("route_scale", 1);
  use_mixtures(mixture, layers_after(h.integer("num_dense_layers", 1), model), model);
  // The family's first files have these fields although other fields imply them.
  h.only("score_func", "sigmoid");
  h.only("route_norm", true);
  h.only("n_group", 1);
  h.only("topk_group", 1);
  h.without_effect("num_expert_groups num_limited_groups load_balance_coeff use_grouped_mm");
}

void shape(DecoderConfig& decoder) {
  norm_heads(decoder);
  gate_outputs(decoder, OutputGate::sigmoid);
  norm_branches(decoder);
}

void afmoe_names(WeightNames& names) {
  gemma2_names(names);
  names.output_gate = "self_attn.gate_proj";
  names.mlp_norm = "pre_mlp_layernorm";
  names.mlp_branch_norm = "post_mlp_layernorm";
}

// The file does not say that the embedding is scaled.
void read_gguf(Hyperparameters& h, ModelInfo& model) {
  scale_by_width(model.decoder);
  read_windows(h, model);
}

extern const Family family = {
    .configs = {{"AfmoeForCausalLM", "afmoe",
                 R"({"vocab_size":200192,"hidden_size":2048,"intermediate_size":6144,"num_attention_heads":16,
                     "max_position_embeddings":16384,"head_dim":128,"sliding_window":1024,"num_experts":64,
                     "num_experts_per_tok":6,"moe_intermediate_size":1408,"num_shared_experts":2})",
                 read_afmoe}},
    .ggufs = {{"afmoe", {.experts = {.known = true, .score = RouterScore::sigmoid}}, read_gguf}},
    .shape = shape,
    .names = afmoe_names,
    .folder_experts =
        ExpertPlaces{
            .shared = "shared_experts", .router = "mlp.router.gate", .correction = "mlp.expert_bias"},
    .row = {.name = "Trinity (AFMoE): Nano 6B-A1B, Mini 26B-A3B",
            .differs =
                "scaled embedding, norms before and after each sublayer, gated attention output, windows, "
                "RoPE in window layers only, sigmoid routing with a correction after dense layers",
            .size = "Mini",
            .config = R"({"model_type":"afmoe","num_key_value_heads":4})"}};

}  // namespace pagoda::afmoe
