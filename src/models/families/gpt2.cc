// GPT-2: layer norm, learned positions, one fused and biased query-key-value matrix, plain MLP. Hugging Face
// stores its matrices as Conv1D, [in, out]; GGUF as all others.
#include <algorithm>
#include <limits>

#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void finish_heads(Hyperparameters& h, ModelConfig& config) {
  config.num_kv_heads = config.num_heads;
  config.head_size = divide(config.hidden_size, config.num_heads);
  if (config.num_heads > 0 && config.hidden_size % config.num_heads != 0)
    h.corrupt("config.json: the hidden size is not a multiple of the number of heads");
}

void read_gpt2(Hyperparameters& h, ModelConfig& config) {
  config.vocab_size = h.integer("vocab_size", 50257);
  config.hidden_size = h.integer("n_embd", 768);
  const std::int64_t inner = h.integer("n_inner", 0);
  const std::int64_t four_times = std::int64_t{4} * config.hidden_size;
  config.intermediate_size = static_cast<std::int32_t>(
      inner != 0 ? inner : std::min<std::int64_t>(four_times, std::numeric_limits<std::int32_t>::max()));
  config.num_layers = h.integer("n_layer", 12);
  config.num_heads = h.integer("n_head", 12);
  config.max_positions = h.integer("n_positions", 1024);
  config.norm_eps = h.number("layer_norm_epsilon", 1e-5f);
  config.activation = h.string("activation_function", "gelu_new");
  config.attention_bias = true;
  config.tie_embeddings = h.boolean("tie_word_embeddings", true);
  config.bos_token_id = h.written("bos_token_id") ? h.integer("bos_token_id", -1) : 50256;
  if (!h.written("eos_token_id")) config.eos_token_ids = {50256};
  h.only("scale_attn_weights", true);
  h.only("scale_attn_by_inverse_layer_idx", false);
  h.only("add_cross_attention", false);
  config.rotates = false;
  finish_heads(h, config);
}

Result<DecoderConfig> describe(const ModelConfig& config) {
  auto decoder = common_description(config);
  if (!decoder) return decoder.error();
  for (LayerConfig& layer : decoder->layers) {
    layer.norm.kind = NormKind::layer;
    layer.attention()->rope = kNoRope;
    layer.dense()->gated = false;
  }
  decoder->final_norm->kind = NormKind::layer;
  decoder->ropes.clear();
  decoder->learned_positions = true;
  return decoder;
}

WeightNames names(ModelFormat format) {
  WeightNames names;
  if (format == ModelFormat::gguf) {
    names = llama_names(format);
    names.position_embedding = "position_embd";
    names.query = names.key = names.value = names.rope_factors = names.gate = "";
    names.fused_qkv = "attn_qkv";
    return names;
  }
  names.prefix = "transformer.";
  names.other_prefixes = {""};
  names.token_embedding = "transformer.wte";
  names.position_embedding = "transformer.wpe";
  names.final_norm = "transformer.ln_f";
  names.head = "lm_head";
  names.layer = "transformer.h.{}.";
  names.attention_norm = "ln_1";
  names.fused_qkv = "attn.c_attn";
  names.attention_output = "attn.c_proj";
  names.mlp_norm = "ln_2";
  names.up = "mlp.c_fc";
  names.down = "mlp.c_proj";
  names.transposed = true;
  return names;
}

void read_gguf(Hyperparameters& h, ModelConfig& config) {
  read_gguf_common(h, {.activation = "gelu_new", .layer_norm = true, .rotates = false}, config);
}

}  // namespace

PAGODA_FAMILY(gpt2) = {.architecture = "gpt2",
                       .configs = {{"GPT2LMHeadModel", "GPT2Model", "gpt2", read_gpt2}},
                       .ggufs = {{"gpt2", read_gguf}},
                       .describe = describe,
                       .names = names,
                       .row = {.name = "GPT-2",
                               .differs = "layer norm, learned positions",
                               .checked = "transformers",
                               .size = "124M",
                               .config = R"({"model_type":"gpt2"})"}};

}  // namespace pagoda
