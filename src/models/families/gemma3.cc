// Gemma 3: Llama with norms on both sides of each half, normalised queries and keys, GELU, a scaled
// embedding, and windows: of six layers, five see the last tokens alone and rotate by a base of their own.
#include <cmath>

#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read_gemma3(Hyperparameters& h, ModelConfig& config) {
  config.vocab_size = h.integer("vocab_size", 262208);
  config.hidden_size = h.integer("hidden_size", 2304);
  config.intermediate_size = h.integer("intermediate_size", 9216);
  config.num_layers = h.integer("num_hidden_layers", 26);
  config.num_heads = h.integer("num_attention_heads", 8);
  config.num_kv_heads = h.integer("num_key_value_heads", 4);
  config.head_size = h.integer("head_dim", 256);
  config.max_positions = h.integer("max_position_embeddings", 131072);
  config.norm_eps = h.number("rms_norm_eps", 1e-6f);
  config.norm_weight_offset = 1;
  config.activation = h.string("hidden_activation", "gelu_pytorch_tanh");
  config.tie_embeddings = h.boolean("tie_word_embeddings", true);
  config.attention_bias = h.boolean("attention_bias", false);
  const float scalar = h.number("query_pre_attn_scalar", 256);
  if (!(scalar > 0)) h.fail("query_pre_attn_scalar", "a positive number");
  config.attention_scale = 1.0f / std::sqrt(scalar);
  config.encoder = h.boolean("use_bidirectional_attention", false);  // EmbeddingGemma
  h.find("attn_logit_softcapping");  // transformers reads it and does nothing with it
  config.logit_softcap = h.number("final_logit_softcapping", 0);
  config.bos_token_id = h.written("bos_token_id") ? h.integer("bos_token_id", -1) : 2;
  config.pad_token_id = 0;
  config.eos_token_ids = {1};
  read_rope_by_layer(h, config, 1000000.0f, 10000.0f);

  config.sliding_window = h.integer("sliding_window", 4096);
  // So many tokens together, half of them on each side.
  if (config.encoder) config.sliding_window = config.sliding_window / 2 + 1;
  h.find("_sliding_window_pattern");
  read_window_pattern(h, config, 6);
}

void read_gguf(Hyperparameters& h, ModelConfig& config) {
  read_gguf_common(h, {.activation = "gelu_new"}, config);
  config.rope_local_theta = h.number("rope.freq_base_swa", 10000.0f);
  read_gguf_window_pattern(h, 6, config);
  // The file does not say that the 27B model, alone with 62 layers, divides by its width a head.
  if (config.num_layers == 62 && config.num_heads > 0)
    config.attention_scale =
        1.0f / std::sqrt(static_cast<float>(config.hidden_size) / static_cast<float>(config.num_heads));
}

}  // namespace

PAGODA_FAMILY(gemma3) = {
    .architecture = "gemma3",
    .configs = {{"Gemma3ForCausalLM", "Gemma3TextModel", "gemma3_text", read_gemma3}},
    .wrappers = {{"Gemma3ForConditionalGeneration", "gemma3", "gemma3_text"}},
    .ggufs = {{"gemma3", read_gguf}},
    .describe = gemma3_description,
    .names = gemma2_names,
    .row = {.name = "Gemma 3: 270M to 27B (text)",
            .differs = "norms on both sides of each half, two rotations, windows in five of six layers, "
                       "scaled embedding",
            .checked = "transformers, the real 270M",
            .size = "4B",
            .config = R"({"model_type":"gemma3_text","num_hidden_layers":34,"sliding_window":1024})"}};

}  // namespace pagoda
