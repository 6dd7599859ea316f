// LFM2, dense and with mixtures: a short convolution in most layers, attention with norms of query and key
// heads in the others. The final norm is called the embedding's norm.
#include <algorithm>

#include "models/reading.h"

namespace pagoda::lfm2 {

ShortConvConfig read_conv(Hyperparameters& h, std::string_view taps, const ModelInfo& model) {
  return {.num_channels = model.decoder.hidden_size, .num_taps = h.integer(taps, 3)};
}

// Also accepts the field names of the first files.
void read_both(Hyperparameters& h, ModelInfo& model) {
  read_layers(h, model);
  read_rope(h, model, h.number("theta"));
  model.decoder.tied_head = h.boolean("tie_embedding", model.decoder.tied_head);
  std::vector<bool> convolutions = read_layers_called(h, "conv", {"full_attention"}, model);
  const bool written = h.find("full_attn_idxs") != nullptr;  // layer_types says the same
  const std::vector<std::int32_t> full = h.integers("full_attn_idxs");
  if (convolutions.empty() && written)
    convolutions =
        layers_where(model, [&](std::int32_t layer) { return std::ranges::find(full, layer) == full.end(); });
  const ShortConvConfig conv = read_conv(h, "conv_L_cache", model);
  if (!convolutions.empty()) use_mixer(h, conv, convolutions, model);
}

void read_lfm2(Hyperparameters& h, ModelInfo& model) {
  read_both(h, model);
  std::int64_t inner = h.integer("block_ff_dim", model.intermediate_size);
  if (h.boolean("block_auto_adjust_ff_dim", true)) {
    const std::int64_t multiple = h.integer("block_multiple_of", 256);
    if (multiple < 1 || inner < 1) return h.fail("block_multiple_of", "a positive integer");
    const double scale = h.number("block_ffn_dim_multiplier", 1.0f);
    inner = static_cast<std::int64_t>(
        std::clamp(scale * static_cast<double>(2 * inner / 3), 0.0, double{1 << 30}));
    inner = std::min<std::int64_t>((inner + multiple - 1) / multiple * multiple, 1 << 30);
  }
  set_intermediate_size(static_cast<std::int32_t>(inner), model);
}

void read_lfm2_moe(Hyperparameters& h, ModelInfo& model) {
  read_both(h, model);
  MixtureConfig mixture = read_experts(h, model);
  mixture.routing.score = RouterScore::sigmoid;
  use_mixtures(mixture, layers_after(h.integer("num_dense_layers", 2), model), model);
}

void names(WeightNames& names) {
  lfm_names(names);
  names.attention_output = "self_attn.out_proj";
  names.query_norm = "self_attn.q_layernorm";
  names.key_norm = "self_attn.k_layernorm";
  names.experts = hf_expert_names({.mixture = "feed_forward", .correction = "feed_forward.expert_bias"});
  ExpertNames& each = names.experts.front();
  each.gate = "feed_forward.experts.{}.w1";
  each.up = "feed_forward.experts.{}.w3";
  each.down = "feed_forward.experts.{}.w2";
  // For MLX's folders of mixtures.
  names.other_dense = {"feed_forward.gate_proj", "feed_forward.up_proj", "feed_forward.down_proj"};
}

// Layers without key-value heads are short convolutions.
void read_layers_by_heads(Hyperparameters& h, ModelInfo& model) {
  std::vector<bool> convolutions;
  for (const LayerConfig& layer : model.decoder.layers)
    convolutions.push_back(layer.attention()->num_kv_heads == 0);
  use_mixer(h, read_conv(h, "shortconv.l_cache", model), convolutions, model);
}

extern const Family family = {
    .configs = {{"Lfm2ForCausalLM", "lfm2",
                 R"({"vocab_size":65536,"hidden_size":2560,"intermediate_size":12288,"num_key_value_heads":8,
                     "max_position_embeddings":128000,"theta":1000000,"bos_token_id":1,"eos_token_id":2,
                     "pad_token_id":0,"tie_word_embeddings":true,"norm_eps":1e-5})",
                 read_lfm2, Reads::all},
                {"Lfm2MoeForCausalLM", "lfm2_moe",
                 R"({"vocab_size":65536,"hidden_size":2048,"intermediate_size":7168,"num_key_value_heads":8,
                     "max_position_embeddings":128000,"theta":1000000,"bos_token_id":1,"eos_token_id":2,
                     "pad_token_id":0,"tie_word_embeddings":true,"norm_eps":1e-5,"num_experts":32,
                     "num_experts_per_tok":4,"moe_intermediate_size":1792,"norm_topk_prob":true,
                     "routed_scaling_factor":1})",
                 read_lfm2_moe, Reads::all, "lfm2moe"}},
    .wrappers = {{"Lfm2VlForConditionalGeneration", "lfm2_vl", "lfm2"}},
    .ggufs = {{"lfm2", {}, read_layers_by_heads},
              {"lfm2moe", {.experts = {.known = true, .score = RouterScore::sigmoid}}, read_layers_by_heads}},
    .shape = norm_heads,
    .names = names,
    .gguf_names = lfm_gguf_names,
    .row = {.name = "LFM2, LFM2.5: 350M to 2.6B, 8B-A1B",
            .differs = "a short convolution in most layers, norms of queries and keys, 8B: mixtures",
            .size = "1.2B",
            .config = R"({"model_type":"lfm2","hidden_size":2048,"num_hidden_layers":16,
                          "full_attn_idxs":[2,5,8,10,12,14]})"}};

}  // namespace pagoda::lfm2
