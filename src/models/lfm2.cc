// LFM2, dense and with mixtures: a short convolution in most layers, in the others attention with a norm of
// every query and key head. What stands behind the last layer is called the embedding's norm.
#include "models/architecture.h"

namespace pagoda {
namespace {

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

}  // namespace

const Architecture kLfm2 = {"lfm2", describe, names};
const Architecture kLfm2Moe = {"lfm2moe", describe, names};

}  // namespace pagoda
