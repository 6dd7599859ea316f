// OLMo 1: Llama with layer norms that have no weights, and queries, keys and values that may be cut off.
#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read_olmo(Hyperparameters& h, ModelConfig& config) {
  read_olmo2(h, config);
  config.norm_eps = 1e-5f;
  config.attention_clip = h.number("clip_qkv", 0);
}

Result<DecoderConfig> describe(const ModelConfig& config) {
  auto decoder = layer_norm_description(config);
  if (!decoder) return decoder.error();
  for (LayerConfig& layer : decoder->layers) layer.norm.weighted = false;
  decoder->final_norm->weighted = false;
  return decoder;
}

// Converters move the rows of queries and h to where adjacent pairs rotate, but leave their biases as they
// are, so that no file with biases can be right.
void read_gguf(Hyperparameters& h, ModelConfig& config) {
  read_gguf_common(h, {.layer_norm = true, .interleaved_rows = true}, config);
  config.attention_clip = h.number("attention.clamp_kqv", 0.0f);
  for (const std::string_view name : {"blk.0.attn_q.bias", "blk.0.attn_k.bias", "blk.0.attn_qkv.bias"})
    if (h.has_tensor(name))
      h.fail(unimplemented(concat("tensor '", name,
                                  "' is not supported: olmo has no attention biases in GGUF files; run the "
                                  "Hugging Face folder instead")));
}

}  // namespace

PAGODA_FAMILY(olmo) = {.architecture = "olmo",
                       .configs = {{"OlmoForCausalLM", "OlmoModel", "olmo", read_olmo}},
                       .ggufs = {{"olmo", read_gguf}},
                       .describe = describe,
                       .names = llama_names,
                       .row = {.name = "OLMo 1: 1B, 7B",
                               .differs = "layer norms without weights, cut-off queries, keys and values",
                               .checked = "transformers",
                               .size = "7B",
                               .config = R"({"model_type":"olmo"})"}};

}  // namespace pagoda
