// OLMo 1: Llama with unweighted layer norms, and optionally clipped queries, keys and values (clip_qkv).
#include "models/reading.h"

namespace pagoda::olmo {

void read_olmo(Hyperparameters& h, ModelInfo& model) {
  set_norm_eps(1e-5f, model.decoder);
  clip_attention(h.number("clip_qkv", 0), model.decoder);
}

void shape(DecoderConfig& decoder) {
  layer_norms(decoder);
  for (LayerConfig& layer : decoder.layers) layer.norm.weighted = false;
  decoder.final_norm->weighted = false;
}

// Converters reorder the rows of queries and keys for rotation of adjacent pairs, but not their biases; so no
// file with biases can be right.
void read_gguf(Hyperparameters& h, ModelInfo& model) {
  clip_attention(h.number("attention.clamp_kqv", 0.0f), model.decoder);
  for (const std::string_view name : {"blk.0.attn_q.bias", "blk.0.attn_k.bias", "blk.0.attn_qkv.bias"})
    if (h.has_tensor(name))
      h.fail(unimplemented(concat("tensor '", name,
                                  "' is not supported: olmo has no attention biases in GGUF files; run the "
                                  "Hugging Face folder instead")));
}

extern const Family family = {
    .configs = {{"OlmoForCausalLM", "olmo",
                 R"({"vocab_size":50304,"intermediate_size":11008,"eos_token_id":50279,"pad_token_id":1})",
                 read_olmo}},
    .ggufs = {{"olmo", {.layer_norm = true, .interleaved_rows = true}, read_gguf}},
    .shape = shape,
    .row = {.name = "OLMo 1: 1B, 7B",
            .differs = "layer norms without weights, clipped queries, keys and values (clip_qkv)",
            .size = "7B"}};

}  // namespace pagoda::olmo
