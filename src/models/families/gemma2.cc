// Gemma 2: Gemma 1 with norms on both sides of each half, soft caps, and a window in every second layer.
#include <cmath>

#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

// Every second layer has a window, the first among them; soft caps on scores and logits.
void read_gemma2(Hyperparameters& h, ModelConfig& config) {
  read_common(h,
              {.vocab_size = 256000,
               .hidden_size = 2304,
               .intermediate_size = 9216,
               .num_layers = 26,
               .num_heads = 8,
               .num_kv_heads = 4,
               .max_positions = 8192,
               .norm_eps = 1e-6f,
               .rope_theta = 10000.0f,
               .bos = 2,
               .eos = 1,
               .pad = 0,
               .tied = true,
               .head_size = 256},
              config);
  config.norm_weight_offset = 1;
  config.activation = h.string("hidden_activation", "gelu_pytorch_tanh");
  const float scalar = h.number("query_pre_attn_scalar", 256);
  if (!(scalar > 0)) h.fail("query_pre_attn_scalar", "a positive number");
  config.attention_scale = 1.0f / std::sqrt(scalar);
  config.attention_softcap = h.written("attn_logit_softcapping") ? h.number("attn_logit_softcapping", 0) : 50;
  config.logit_softcap = h.written("final_logit_softcapping") ? h.number("final_logit_softcapping", 0) : 30;
  h.only("use_bidirectional_attention", false);
  config.sliding_window = h.integer("sliding_window", 4096);
  read_window_pattern(h, config, 2);
}

void read_gguf(Hyperparameters& h, ModelConfig& config) {
  read_gguf_common(h, {.activation = "gelu_new"}, config);
  config.attention_softcap = h.number("attn_logit_softcapping", 0.0f);
  config.logit_softcap = h.number("final_logit_softcapping", 0.0f);
  read_gguf_window_pattern(h, 2, config);
  // The file does not say that the 27B model, alone with 46 layers, divides by its width a head.
  if (config.num_layers == 46 && config.num_heads > 0)
    config.attention_scale =
        1.0f / std::sqrt(static_cast<float>(config.hidden_size) / static_cast<float>(config.num_heads));
}

}  // namespace

PAGODA_FAMILY(gemma2) = {
    .architecture = "gemma2",
    .configs = {{"Gemma2ForCausalLM", "Gemma2Model", "gemma2", read_gemma2}},
    .ggufs = {{"gemma2", read_gguf}},
    .describe = sandwich_gemma_description,
    .names = gemma2_names,
    .row = {
        .name = "Gemma 2: 2B, 9B, 27B",
        .differs =
            "soft caps of scores and logits, norms on both sides of each half, windows in every second layer",
        .checked = "transformers",
        .size = "9B",
        .config = R"({"model_type":"gemma2","num_hidden_layers":42,"num_attention_heads":16,
                       "num_key_value_heads":8})"}};

}  // namespace pagoda
