// LFM2, dense and with mixtures: a short convolution in most layers, in the others attention with a norm of
// every query and key head. What stands behind the last layer is called the embedding's norm.
#include <algorithm>

#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

// Names of the first files are also understood.
void read_lfm2_like(Hyperparameters& h, Defaults absent, ModelConfig& config) {
  absent.eps_name = "norm_eps";
  absent.rope_theta = h.number("theta", absent.rope_theta);
  read_common(h, absent, config);
  config.tie_embeddings = h.boolean("tie_embedding", config.tie_embeddings);
  config.conv_taps = h.integer("conv_L_cache", 3);
  config.state_size = (std::int64_t{config.conv_taps} - 1) * config.hidden_size;
  config.recurrent_layers = recurrent_layers(h, "conv", config);
}

void read_lfm2(Hyperparameters& h, ModelConfig& config) {
  read_lfm2_like(h,
                 {.vocab_size = 65536,
                  .hidden_size = 2560,
                  .intermediate_size = 12288,
                  .num_layers = 32,
                  .num_heads = 32,
                  .num_kv_heads = 8,
                  .max_positions = 128000,
                  .norm_eps = 1e-5f,
                  .rope_theta = 1000000.0f,
                  .bos = 1,
                  .eos = 2,
                  .pad = 0,
                  .tied = true},
                 config);
  if (config.recurrent_layers.empty()) {
    const bool written = h.find("full_attn_idxs") != nullptr;
    const std::vector<std::int32_t> full = h.integers("full_attn_idxs");
    for (std::int32_t layer = 0; layer < listed_layers(config) && written; ++layer)
      config.recurrent_layers.push_back(std::find(full.begin(), full.end(), layer) == full.end());
  }
  h.find("full_attn_idxs");  // which layer_types says, too
  if (std::ranges::find(config.recurrent_layers, true) == config.recurrent_layers.end())
    config.recurrent_layers.clear();
  std::int64_t inner = h.integer("block_ff_dim", config.intermediate_size);
  if (h.boolean("block_auto_adjust_ff_dim", true)) {
    const std::int64_t multiple = h.integer("block_multiple_of", 256);
    if (multiple < 1 || inner < 1) return h.fail("block_multiple_of", "a positive integer");
    const double scale = h.number("block_ffn_dim_multiplier", 1.0f);
    inner = static_cast<std::int64_t>(
        std::clamp(scale * static_cast<double>(2 * inner / 3), 0.0, double{1 << 30}));
    inner = std::min<std::int64_t>((inner + multiple - 1) / multiple * multiple, 1 << 30);
  }
  config.intermediate_size = static_cast<std::int32_t>(inner);
}

void read_lfm2_moe(Hyperparameters& h, ModelConfig& config) {
  read_lfm2_like(h,
                 {.vocab_size = 65536,
                  .hidden_size = 2048,
                  .intermediate_size = 7168,
                  .num_layers = 32,
                  .num_heads = 32,
                  .num_kv_heads = 8,
                  .max_positions = 128000,
                  .norm_eps = 1e-5f,
                  .rope_theta = 1000000.0f,
                  .bos = 1,
                  .eos = 2,
                  .pad = 0,
                  .tied = true},
                 config);
  ExpertsConfig& experts = config.experts;
  experts.count = h.integer("num_experts", 32);
  experts.per_token = h.integer("num_experts_per_tok", 4);
  experts.intermediate_size = h.integer("moe_intermediate_size", 1792);
  experts.score = ExpertScore::sigmoid;
  experts.renormalize = h.boolean("norm_topk_prob", true);
  experts.scale = h.number("routed_scaling_factor", 1.0f);
  const std::int32_t dense = h.integer("num_dense_layers", 2);
  for (std::int32_t layer = 0; layer < listed_layers(config); ++layer)
    experts.layers.push_back(layer >= dense);
}

Result<DecoderConfig> describe(const ModelConfig& config) {
  auto decoder = qwen3_description(config);
  if (!decoder) return decoder.error();
  for (std::int32_t index = 0; index < config.num_layers; ++index)
    if (config.is_recurrent(index))
      decoder->layers[static_cast<std::size_t>(index)].mixer =
          ShortConvConfig{.num_channels = config.hidden_size, .num_taps = config.conv_taps};
  return decoder;
}

WeightNames names(ModelFormat format) {
  WeightNames names = llama_names(format);
  if (format == ModelFormat::gguf) {
    names.final_norm = "token_embd_norm";
    names.conv_in = "shortconv.in_proj";
    names.conv = "shortconv.conv";
    names.conv_out = "shortconv.out_proj";
    return names;
  }
  names.final_norm = "model.embedding_norm";
  names.attention_norm = "operator_norm";
  names.mlp_norm = "ffn_norm";
  names.attention_output = "self_attn.out_proj";
  names.query_norm = "self_attn.q_layernorm";
  names.key_norm = "self_attn.k_layernorm";
  names.gate = "feed_forward.w1";
  names.up = "feed_forward.w3";
  names.down = "feed_forward.w2";
  names.conv_in = "conv.in_proj";
  names.conv = "conv.conv";
  names.conv_out = "conv.out_proj";
  names.experts = hf_expert_names("feed_forward", "");
  ExpertNames& each = names.experts.front();
  each.gate = "feed_forward.experts.{}.w1";
  each.up = "feed_forward.experts.{}.w3";
  each.down = "feed_forward.experts.{}.w2";
  for (ExpertNames& experts : names.experts) experts.correction = "feed_forward.expert_bias";
  return names;
}

// Layers without key-value heads are short convolutions.
void read_layers_by_heads(Hyperparameters& h, ModelConfig& config) {
  config.conv_taps = h.integer("shortconv.l_cache", 3);
  config.state_size = (std::int64_t{config.conv_taps} - 1) * config.hidden_size;
  for (const std::int32_t heads : h.of_layers("attention.head_count_kv", config.num_layers))
    config.recurrent_layers.push_back(heads == 0);
  read_kv_heads(h, config);
  if (config.experts.count > 0) read_layers_with_routers(h, config);
}

void read_gguf_lfm2(Hyperparameters& h, ModelConfig& config) {
  read_gguf_common(h, {}, config);
  read_layers_by_heads(h, config);
  h.without_effect({"shortconv.l_cache"});
}

void read_gguf_lfm2moe(Hyperparameters& h, ModelConfig& config) {
  read_gguf_common(h, {.experts = {.known = true, .score = ExpertScore::sigmoid}}, config);
  read_layers_by_heads(h, config);
  h.without_effect({"shortconv.l_cache"});
}

}  // namespace

PAGODA_FAMILY(lfm2) = {
    .architecture = "lfm2",
    .configs = {{"Lfm2ForCausalLM", "Lfm2Model", "lfm2", read_lfm2},
                {"Lfm2MoeForCausalLM", "Lfm2MoeModel", "lfm2_moe", read_lfm2_moe, "lfm2moe"}},
    .wrappers = {{"Lfm2VlForConditionalGeneration", "lfm2_vl", "lfm2"}},
    .ggufs = {{"lfm2", read_gguf_lfm2}, {"lfm2moe", read_gguf_lfm2moe}},
    .describe = describe,
    .names = names,
    .row = {.name = "LFM2, LFM2.5: 350M to 2.6B, 8B-A1B",
            .differs =
                "a short convolution in most layers, norms of queries and keys, 8B: mixtures; one rank only",
            .checked = "transformers",
            .size = "1.2B",
            .config = R"({"model_type":"lfm2","hidden_size":2048,"num_hidden_layers":16,
                       "full_attn_idxs":[2,5,8,10,12,14]})"}};

}  // namespace pagoda
