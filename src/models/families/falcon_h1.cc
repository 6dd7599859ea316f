// Falcon-H1: Mamba-2 beside attention in every layer, and multipliers of all products.
#include "models/reading.h"

namespace pagoda::falcon_h1 {

std::vector<float> multipliers(Hyperparameters& h, std::string_view name, std::size_t count) {
  if (h.find(name) == nullptr) return std::vector<float>(count, 1.0f);
  std::vector<float> values = h.numbers(name);
  if (values.size() != count) h.fail(name, concat("a list of ", count, " numbers"));
  values.resize(count, 1.0f);
  return values;
}

void mix_in_parallel(const LinearAttentionConfig& states, DecoderConfig& decoder) {
  for (LayerConfig& layer : decoder.layers)
    layer.mixer = ParallelMixersConfig{.attention = *layer.attention(), .linear = states};
}

void read_falcon_h1(Hyperparameters& h, ModelInfo& model) {
  for (const std::string_view bias : {"mlp_bias", "projectors_bias", "mamba_proj_bias"})
    h.boolean(bias, false);  // implied by the tensors
  const std::int64_t expanded = std::int64_t{h.integer("mamba_expand", 2)} * model.decoder.hidden_size;
  const json::value* written = h.find("mamba_d_ssm");
  LinearAttentionConfig states = read_mamba(h, written != nullptr         ? h.integer("mamba_d_ssm", 0)
                                               : h.written("mamba_d_ssm") ? expanded
                                                                          : 1024);
  h.only("hidden_act", "silu");  // also used by the convolution
  if (!h.boolean("mamba_rms_norm", false)) states.norm_groups = 0;
  states.gate_first = !h.boolean("mamba_norm_before_gate", true);
  const float in = h.number("ssm_in_multiplier", 1), attention_in = h.number("attention_in_multiplier", 1);
  const std::vector<float> parts = multipliers(h, "ssm_multipliers", 5);
  const std::vector<float> mlp = multipliers(h, "mlp_multipliers", 2);
  for (std::size_t i = 0; i < 5; ++i) states.in_factors[i] = in * parts[i];
  states.input_factor = in;
  states.out_factor = h.number("ssm_out_multiplier", 1);
  const float key = h.number("key_multiplier", 1), out = h.number("attention_out_multiplier", 1);
  for (LayerConfig& layer : model.decoder.layers) {
    AttentionConfig& attention = *layer.attention();
    attention.query_factor = attention.value_factor = attention.input_factor = attention_in;
    attention.key_factor = attention_in * key;
    attention.output_factor = out;
    layer.dense()->gate_factor = mlp[0];
    layer.dense()->down_factor = mlp[1];
  }
  mix_in_parallel(states, model.decoder);
  model.decoder.embedding_scale = h.number("embedding_multiplier", 1);
  model.decoder.logit_scale = h.number("lm_head_multiplier", 1);
}

void falcon_names(WeightNames& names) {
  mamba2_names(names, "mamba");
  beside_states_names(names);
}

// The gate follows the norm, if there is one. Converters multiply the embedding and the head by factors that
// the file does not state; a tied head therefore lacks the factor lm_head_multiplier / embedding_multiplier.
void read_gguf(Hyperparameters& h, ModelInfo& model) {
  model.decoder.logit_scale = h.number("logit_scale", 1.0f);
  if (!h.has_tensor("output.weight") && !h.written("logit_scale"))
    h.fail(
        unimplemented("the file has no head (output.weight) and no scale for the tied embedding; give "
                      "config.json's lm_head_multiplier / embedding_multiplier as --override-kv "
                      "falcon-h1.logit_scale=float:FACTOR, which is 1 for models without multipliers"));
  LinearAttentionConfig states = read_state_heads(h);
  states.gate_first = false;
  if (!h.has_tensor("blk.0.ssm_norm.weight")) states.norm_groups = 0;
  mix_in_parallel(states, model.decoder);
}

extern const Family family = {
    .configs = {{"FalconH1ForCausalLM", "falcon_h1",
                 R"({"vocab_size":128000,"intermediate_size":14336,"num_key_value_heads":8,
                     "max_position_embeddings":8192,"bos_token_id":1,"eos_token_id":2,"pad_token_id":0})",
                 read_falcon_h1}},
    .ggufs = {{"falcon-h1", {}, read_gguf}},
    .names = falcon_names,
    .gguf_names = [](WeightNames& names) { names.bare_mlp_norm = true; },
    .row = {.name = "Falcon-H1: 0.5B to 34B",
            .differs = "Mamba-2 beside attention in every layer, multipliers on every product",
            .size = "7B",
            .config = R"({"model_type":"falcon_h1","hidden_size":3072,"num_hidden_layers":44,
                          "num_attention_heads":12,"num_key_value_heads":2,"head_dim":128,"mamba_d_ssm":3072,
                          "mamba_n_heads":24,"mamba_d_head":128,"mamba_d_state":256})"}};

}  // namespace pagoda::falcon_h1
