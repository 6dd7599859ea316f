// gpt-oss: Llama with mixtures in every layer, attention sinks (a score without a value per head), windows in
// every second layer, biases everywhere, and a clipped gated activation. Source: arXiv 2508.10925.
#include "models/reading.h"

namespace pagoda::gpt_oss {

void read_gpt_oss(Hyperparameters& h, ModelInfo& model) {
  if (has_plain_rope(h)) {
    RopeConfig& rope = model.decoder.ropes.front();
    rope.scaling = RopeScaling::yarn;
    rope.factor = 32;
    rope.original_positions = 4096;
    rope.truncate = false;
    rope.attention_factor = yarn_scale(32, 1);
  }
  use_windows(h, h.integer("sliding_window"),
              read_window_layers_or(h, model, [](std::int32_t layer) { return layer % 2 == 0; }), model);
  h.only("swiglu_limit", 7.0);
  h.only("swiglu_alpha", 1.702);
  MixtureConfig mixture = read_experts(h, model);
  mixture.routing.score = RouterScore::softmax_of_chosen;
  use_mixtures(mixture, {}, model);
}

void shape(DecoderConfig& decoder) {
  each_attention(decoder, [](AttentionConfig& attention) { attention.sinks = true; });
  each_mixture(decoder, [](MixtureConfig& mixture) { mixture.expert.activation = Activation::clamped_silu; });
}

void names(WeightNames& names) {
  names.sinks = "self_attn.sinks";
  const ExpertNames values = {.router = "mlp.router",
                              .down = "mlp.experts.down_proj",
                              .gate_up = "mlp.experts.gate_up_proj",
                              .weight = "",
                              .bias = "_bias",
                              .transposed = true,
                              .interleaved = true};
  ExpertNames blocks = values;
  blocks.weight = "_blocks";
  blocks.transposed = false;
  names.experts = {blocks, values, mlx_experts(values, "mlp.experts")};
}

// The file does not say that YaRN's blend of frequencies may begin and end between whole dimensions.
void read_gguf(Hyperparameters& h, ModelInfo& model) {
  model.decoder.ropes.front().truncate = false;
  read_gguf_window_pattern(h, 2, model);
}

extern const Family family = {
    .configs = {{"GptOssForCausalLM", "gpt_oss",
                 R"({"vocab_size":201088,"hidden_size":2880,"intermediate_size":2880,"num_hidden_layers":36,
                     "num_attention_heads":64,"num_key_value_heads":8,"max_position_embeddings":131072,
                     "rope_theta":150000,"head_dim":64,"sliding_window":128,"num_local_experts":128,
                     "num_experts_per_tok":4})",
                 read_gpt_oss}},
    .ggufs = {{"gpt-oss",
               {.experts = {.known = true, .score = RouterScore::softmax_of_chosen, .renormalize = false}},
               read_gguf}},
    .shape = shape,
    .names = names,
    .gguf_names = post_attention_gguf_names,
    .row = {.name = "gpt-oss: 20B, 120B",
            .differs = "mixtures with biases, gate and up clipped at 7, attention sinks, windows in every "
                       "second layer, YaRN",
            .size = "20B",
            .config = R"({"model_type":"gpt_oss","num_hidden_layers":24})",
            .note = "experts in MXFP4 or as values"}};

}  // namespace pagoda::gpt_oss
