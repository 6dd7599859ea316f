// BLOOM: layer norms, a norm of the embedding, plain GELU MLPs, and ALiBi instead of positions.
#include "models/reading.h"

namespace pagoda::bloom {

void read_alibi(Hyperparameters& h, ModelInfo& model) {
  clip_attention(h.number("clip_qkv", 0.0f), model.decoder);
  use_alibi(h, h.number("attention.max_alibi_bias", 8.0f), AlibiOrder::lower_first, model.decoder);
}

void read_bloom(Hyperparameters& h, ModelInfo& model) {
  read_plain_layers(h, model);
  read_alibi(h, model);
  h.only("apply_residual_connection_post_layernorm", false);
}

void shape(DecoderConfig& decoder) {
  plain_layer_norm_shape(decoder);
  decoder.embedding_norm = decoder.final_norm;
}

extern const Family family = {
    .configs =
        {{"BloomForCausalLM", "bloom",
          R"({"vocab_size":250880,"n_embed":64,"hidden_size":64,"n_layer":2,"num_hidden_layers":2,"n_head":8,
              "num_attention_heads":8,"seq_length":2048,"bos_token_id":1,"eos_token_id":2,
              "tie_word_embeddings":true,"layer_norm_epsilon":1e-5,"activation_function":"gelu_new"})",
          read_bloom, Reads::all}},
    .ggufs =
        {{"bloom",
          {.activation = "gelu_new", .layer_norm = true, .rotates = false, .context_instead_of_width = 2048},
          read_alibi}},
    .shape = shape,
    .names = bloom_names,
    .row = {.name = "BLOOM 560M to 176B",
            .differs = "layer norms, ALiBi",
            .size = "7B",
            .config = R"({"model_type":"bloom","hidden_size":4096,"n_layer":30,"num_attention_heads":32})"}};

}  // namespace pagoda::bloom
