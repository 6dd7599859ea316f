// BLOOM and MPT: layer norms, plain MLPs of GELU, and scores that fall with the distance (ALiBi, arXiv
// 2108.12409) instead of positions.
#include <bit>
#include <cmath>

#include "models/architecture.h"

namespace pagoda {
namespace {

// 2^-(max i / n) for i = 1 .. n, n a power of two. Of other numbers of heads: those of the next lower power
// first and then every second of the next higher (BLOOM), or those of the next higher, every second first
// (MPT).
std::vector<float> slopes_of(std::int32_t num_heads, double most, bool higher_first) {
  const auto slopes = [&](std::uint32_t count) {
    std::vector<float> all;
    for (std::uint32_t i = 1; i <= count; ++i)
      all.push_back(static_cast<float>(std::exp2(-most * static_cast<double>(i) / count)));
    return all;
  };
  const auto heads = static_cast<std::uint32_t>(num_heads);
  if (std::has_single_bit(heads)) return slopes(heads);
  const std::vector<float> higher = slopes(std::bit_ceil(heads));
  std::vector<float> result;
  if (higher_first) {
    for (std::size_t i = 1; i < higher.size(); i += 2) result.push_back(higher[i]);
  } else {
    result = slopes(std::bit_floor(heads));
  }
  for (std::size_t i = 0; result.size() < heads; i += 2) result.push_back(higher[i]);
  return result;
}

Result<DecoderConfig> describe(const ModelConfig& config) {
  auto decoder = plain_layer_norm_description(config);
  if (!decoder) return decoder.error();
  const std::vector<float> slopes =
      slopes_of(config.num_heads, config.alibi_max, config.architecture == "mpt");
  for (LayerConfig& layer : decoder->layers) {
    layer.attention()->rope = kNoRope;
    layer.attention()->slopes = slopes;
  }
  decoder->ropes.clear();
  if (config.architecture == "bloom") decoder->embedding_norm = decoder->final_norm;
  return decoder;
}

WeightNames gguf_names() {
  WeightNames names = llama_names(ModelFormat::gguf);
  names.embedding_norm = "token_embd_norm";
  names.query = names.key = names.value = names.gate = names.rope_factors = "";
  names.fused_qkv = "attn_qkv";
  return names;
}

WeightNames bloom_names(ModelFormat format) {
  if (format == ModelFormat::gguf) return gguf_names();
  return {.prefix = "transformer.",
          .other_prefixes = {""},
          .token_embedding = "transformer.word_embeddings",
          .embedding_norm = "transformer.word_embeddings_layernorm",
          .final_norm = "transformer.ln_f",
          .head = "lm_head",
          .layer = "transformer.h.{}.",
          .attention_norm = "input_layernorm",
          .mlp_norm = "post_attention_layernorm",
          .attention_output = "self_attention.dense",
          .fused_qkv = "self_attention.query_key_value",
          .qkv_by_group = true,
          .up = "mlp.dense_h_to_4h",
          .down = "mlp.dense_4h_to_h"};
}

WeightNames mpt_names(ModelFormat format) {
  if (format == ModelFormat::gguf) return gguf_names();
  return {.prefix = "transformer.",
          .other_prefixes = {""},
          .token_embedding = "transformer.wte",
          .final_norm = "transformer.norm_f",
          .head = "lm_head",
          .layer = "transformer.blocks.{}.",
          .attention_norm = "norm_1",
          .mlp_norm = "norm_2",
          .attention_output = "attn.out_proj",
          .fused_qkv = "attn.Wqkv",
          .up = "ffn.up_proj",
          .down = "ffn.down_proj"};
}

}  // namespace

const Architecture kBloom = {"bloom", describe, bloom_names};
const Architecture kMpt = {"mpt", describe, mpt_names};

}  // namespace pagoda
