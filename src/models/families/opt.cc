// OPT: layer norm, learned positions that start at row 2, biases everywhere, plain ReLU MLP. The 350m model
// normalises after each sublayer, has no final norm, and projects its smaller embedding in and out.
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

void read_opt(Hyperparameters& h, ModelConfig& config) {
  config.vocab_size = h.integer("vocab_size", 50272);
  config.hidden_size = h.integer("hidden_size", 768);
  config.intermediate_size = h.integer("ffn_dim", 3072);
  config.num_layers = h.integer("num_hidden_layers", 12);
  config.num_heads = h.integer("num_attention_heads", 12);
  config.max_positions = h.integer("max_position_embeddings", 2048);
  config.embedding_size = h.integer("word_embed_proj_dim", config.hidden_size);
  config.norm_before = h.boolean("do_layer_norm_before", true);
  config.final_norm = config.norm_before && !h.boolean("_remove_final_layer_norm", false);
  config.activation = h.string("activation_function", "relu");
  config.attention_bias = h.boolean("enable_bias", true);
  config.tie_embeddings = h.boolean("tie_word_embeddings", true);
  config.bos_token_id = h.written("bos_token_id") ? h.integer("bos_token_id", -1) : 2;
  if (!h.written("eos_token_id")) config.eos_token_ids = {2};
  if (!h.written("pad_token_id")) config.pad_token_id = 1;
  h.only("layer_norm_elementwise_affine", true);
  config.rotates = false;
  finish_heads(h, config);
}

Result<DecoderConfig> describe(const ModelConfig& config) {
  auto decoder = common_description(config);
  if (!decoder) return decoder.error();
  for (LayerConfig& layer : decoder->layers) {
    layer.norm.kind = NormKind::layer;
    layer.mixer_norms = {.input = config.norm_before, .branch = false, .sum = !config.norm_before};
    layer.feed_forward_norms = layer.mixer_norms;
    layer.attention()->rope = kNoRope;
    layer.dense()->gated = false;
  }
  decoder->final_norm->kind = NormKind::layer;
  if (!config.norm_before || !config.final_norm) decoder->final_norm.reset();
  decoder->ropes.clear();
  decoder->learned_positions = true;
  decoder->position_offset = 2;
  return decoder;
}

WeightNames names(ModelFormat) {
  WeightNames names;
  names.prefix = "model.";
  names.other_prefixes = {""};
  names.token_embedding = "model.decoder.embed_tokens";
  names.position_embedding = "model.decoder.embed_positions";
  names.project_in = "model.decoder.project_in";
  names.project_out = "model.decoder.project_out";
  names.final_norm = "model.decoder.final_layer_norm";
  names.head = "lm_head";
  names.layer = "model.decoder.layers.{}.";
  names.attention_norm = "self_attn_layer_norm";
  names.query = "self_attn.q_proj";
  names.key = "self_attn.k_proj";
  names.value = "self_attn.v_proj";
  names.attention_output = "self_attn.out_proj";
  names.mlp_norm = "final_layer_norm";
  names.up = "fc1";
  names.down = "fc2";
  return names;
}

}  // namespace

PAGODA_FAMILY(opt) = {.architecture = "opt",
                      .configs = {{"OPTForCausalLM", "OPTModel", "opt", read_opt}},
                      .describe = describe,
                      .names = names,
                      .row = {.name = "OPT: 125M to 66B",
                              .differs = "layer norm, learned positions, ReLU",
                              .checked = "transformers",
                              .size = "13B",
                              .config = R"({"model_type":"opt","hidden_size":5120,"num_hidden_layers":40,
                       "num_attention_heads":40})"}};

}  // namespace pagoda
