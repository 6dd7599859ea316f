// Falcon-H1: Mamba-2 beside attention in every layer, and factors of every product.
#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

std::vector<float> multipliers(Hyperparameters& h, std::string_view name, std::size_t count) {
  if (h.find(name) == nullptr) return std::vector<float>(count, 1.0f);
  std::vector<float> values = h.numbers(name);
  if (values.size() != count) h.fail(name, concat("a list of ", count, " numbers"));
  values.resize(count, 1.0f);
  return values;
}

void read_falcon_h1(Hyperparameters& h, ModelConfig& config) {
  read_common(h,
              {.vocab_size = 128000,
               .hidden_size = 4096,
               .intermediate_size = 14336,
               .num_layers = 32,
               .num_heads = 32,
               .num_kv_heads = 8,
               .max_positions = 8192,
               .norm_eps = 1e-5f,
               .rope_theta = 10000.0f,
               .bos = 1,
               .eos = 2,
               .pad = 0},
              config);
  for (const std::string_view bias : {"mlp_bias", "projectors_bias", "mamba_proj_bias"})
    h.boolean(bias, false);  // as the tensors say
  const std::int64_t expanded = std::int64_t{h.integer("mamba_expand", 2)} * config.hidden_size;
  const json::value* written = h.find("mamba_d_ssm");
  read_mamba(h,
             written != nullptr         ? h.integer("mamba_d_ssm", 0)
             : h.written("mamba_d_ssm") ? expanded
                                        : 1024,
             config);
  config.recurrent_layers.assign(static_cast<std::size_t>(listed_layers(config)), true);
  config.state_beside_kv = true;
  h.only("hidden_act", "silu");  // the convolution has it, too
  set_state_size(config);
  if (!h.boolean("mamba_rms_norm", false)) config.state.norm_groups = 0;
  config.state.gate_first = !h.boolean("mamba_norm_before_gate", true);
  const float in = h.number("ssm_in_multiplier", 1), attention = h.number("attention_in_multiplier", 1);
  const std::vector<float> parts = multipliers(h, "ssm_multipliers", 5);
  const std::vector<float> mlp = multipliers(h, "mlp_multipliers", 2);
  for (std::size_t i = 0; i < 5; ++i) config.state.in_factors[i] = in * parts[i];
  config.state.input_factor = in;
  config.state.out_factor = h.number("ssm_out_multiplier", 1);
  config.factors = {.query = attention,
                    .key = attention * h.number("key_multiplier", 1),
                    .value = attention,
                    .attention_output = h.number("attention_out_multiplier", 1),
                    .input = attention,
                    .gate = mlp[0],
                    .down = mlp[1]};
  config.embedding_scale = h.number("embedding_multiplier", 1);
  config.logit_scale = h.number("lm_head_multiplier", 1);
}

Result<DecoderConfig> describe_falcon(const ModelConfig& config) {
  auto decoder = common_description(config);
  if (!decoder) return decoder.error();
  const ProductFactors& factors = config.factors;
  for (LayerConfig& layer : decoder->layers) {
    AttentionConfig attention = *layer.attention();
    attention.query_factor = factors.query;
    attention.input_factor = factors.input;
    attention.key_factor = factors.key;
    attention.value_factor = factors.value;
    attention.output_factor = factors.attention_output;
    layer.mixer = ParallelMixersConfig{.attention = attention, .linear = mamba2_of(config)};
    layer.dense()->gate_factor = factors.gate;
    layer.dense()->down_factor = factors.down;
  }
  return decoder;
}

WeightNames falcon_names(ModelFormat format) {
  WeightNames names = with_mamba2(llama_names(format), format, "mamba");
  if (format == ModelFormat::gguf) return names;
  names.final_norm = "model.final_layernorm";
  names.mlp_norm = "pre_ff_layernorm";
  names.gate = "feed_forward.gate_proj";
  names.up = "feed_forward.up_proj";
  names.down = "feed_forward.down_proj";
  return names;
}

// The gate is behind the norm, where there is one. Converters multiply the embedding and the head by factors
// that the file does not name, so that a head which is the embedding lacks lm_head_multiplier /
// embedding_multiplier.
void read_gguf(Hyperparameters& h, ModelConfig& config) {
  read_gguf_common(h, {}, config);
  config.logit_scale = h.number("logit_scale", 1.0f);
  if (!h.has_tensor("output.weight") && !h.written("logit_scale"))
    h.fail(unimplemented(
        "the file has no head (output.weight) and does not say how the embedding is scaled as one; give "
        "config.json's lm_head_multiplier / embedding_multiplier as --override-kv "
        "falcon-h1.logit_scale=float:FACTOR, which is 1 for models without multipliers"));
  read_state_heads(h, config);
  config.state_beside_kv = true;
  config.state.gate_first = false;
  if (h.has_tensor("blk.0.ssm_norm.weight")) config.state.norm_groups = config.state.num_key_heads;
}

}  // namespace

PAGODA_FAMILY(falcon_h1) = {
    .architecture = "falcon-h1",
    .configs = {{"FalconH1ForCausalLM", "FalconH1Model", "falcon_h1", read_falcon_h1}},
    .ggufs = {{"falcon-h1", read_gguf}},
    .describe = describe_falcon,
    .names = falcon_names,
    .row = {.name = "Falcon-H1: 0.5B to 34B",
            .differs = "Mamba-2 beside attention in every layer, factors of every product; one rank only",
            .checked = "transformers",
            .size = "7B",
            .config = R"({"model_type":"falcon_h1","hidden_size":3072,"num_hidden_layers":44,
                       "num_attention_heads":12,"num_key_value_heads":2,"head_dim":128,"mamba_d_ssm":3072,
                       "mamba_n_heads":24,"mamba_d_head":128,"mamba_d_state":256})"}};

}  // namespace pagoda
