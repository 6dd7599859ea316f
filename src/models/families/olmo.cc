// OLMo 1: Llama with layer norms that have no weights, and queries, keys and values that may be cut off.
#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read_olmo(Hyperparameters& h, ModelInfo& model) {
  read_olmo2(h, model);
  set_norm_eps(1e-5f, model.decoder);
  clip_attention(h.number("clip_qkv", 0), model.decoder);
}

void shape(DecoderConfig& decoder) {
  layer_norms(decoder);
  for (LayerConfig& layer : decoder.layers) layer.norm.weighted = false;
  decoder.final_norm->weighted = false;
}

// Converters move the rows of queries and keys to where adjacent pairs rotate, but leave their biases as they
// are, so that no file with biases can be right.
void read_gguf(Hyperparameters& h, ModelInfo& model) {
  read_gguf_common(h, {.layer_norm = true, .interleaved_rows = true}, model);
  clip_attention(h.number("attention.clamp_kqv", 0.0f), model.decoder);
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
                       .shape = shape,
                       .names = llama_names,
                       .row = {.name = "OLMo 1: 1B, 7B",
                               .differs = "layer norms without weights, cut-off queries, keys and values",
                               .checked = "transformers",
                               .size = "7B",
                               .config = R"({"model_type":"olmo"})"}};

}  // namespace pagoda
