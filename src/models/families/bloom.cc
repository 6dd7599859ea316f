// BLOOM: layer norms, a norm of the embedding, plain MLPs of GELU, and scores that fall with the distance
// (ALiBi) instead of positions.
#include "models/reading.h"

namespace pagoda {
namespace {

void read_bloom(Hyperparameters& h, ModelInfo& model) {
  read_sizes(h,
             {.hidden = h.find("n_embed") != nullptr ? "n_embed" : "hidden_size",
              .layers = h.find("num_hidden_layers") != nullptr ? "num_hidden_layers" : "n_layer",
              .heads = h.find("num_attention_heads") != nullptr ? "num_attention_heads" : "n_head",
              .positions = "seq_length"},  // ALiBi has no limit of its own
             {.vocab_size = 250880,
              .hidden_size = 64,
              .num_layers = 2,
              .num_heads = 8,
              .max_positions = 2048,
              .bos = 1,
              .eos = 2,
              .tied = true,
              .eps_name = "layer_norm_epsilon",
              .activation = "gelu_new"},
             model);
  use_alibi(h, 8, AlibiOrder::lower_first, model.decoder);
  h.only("apply_residual_connection_post_layernorm", false);
}

void shape(DecoderConfig& decoder) {
  plain_layer_norm_shape(decoder);
  decoder.embedding_norm = decoder.final_norm;
}

void read_gguf(Hyperparameters& h, ModelInfo& model) {
  clip_attention(h.number("clip_qkv", 0.0f), model.decoder);
  use_alibi(h, h.number("attention.max_alibi_bias", 8.0f), AlibiOrder::lower_first, model.decoder);
}

}  // namespace

PAGODA_FAMILY(bloom) = {
    .configs = {{"BloomForCausalLM", "bloom", {}, read_bloom, Reads::all}},
    .ggufs =
        {{"bloom",
          {.activation = "gelu_new", .layer_norm = true, .rotates = false, .context_instead_of_width = 2048},
          read_gguf}},
    .shape = shape,
    .names = bloom_names,
    .row = {.name = "BLOOM 560M to 176B",
            .differs = "layer norms, ALiBi",
            .size = "7B",
            .config = R"({"model_type":"bloom","hidden_size":4096,"n_layer":30,"num_attention_heads":32})"}};

}  // namespace pagoda
