// NomicBERT: BERT with rotation instead of positions and a gated feed-forward; or, in nomic-embed-text v2, a
// plain one and in every second layer a mixture of such.
#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

// The same with rotation instead of positions, and a gated feed-forward; or a plain one, in every second
// layer a mixture of such (Nomic Embed 2).
Result<DecoderConfig> describe_nomic_bert(const ModelConfig& config) {
  auto encoder = layer_norm_description(config);
  if (!encoder) return encoder.error();
  for (LayerConfig& layer : encoder->layers) {
    layer.mixer_norms = layer.feed_forward_norms = {.input = false, .branch = false, .sum = true};
    if (config.activation == "silu") continue;
    if (DenseFeedForwardConfig* const dense = layer.dense()) dense->gated = false;
    if (MixtureConfig* const mixture = layer.mixture()) mixture->expert.gated = false;
  }
  encoder->embedding_norm = encoder->final_norm;
  encoder->final_norm.reset();
  encoder->token_types = config.token_types;
  return encoder;
}

WeightNames nomic_bert_names(ModelFormat format) {
  if (format == ModelFormat::gguf) return encoder_gguf_names();
  return {.prefix = "nomic_bert.",
          .other_prefixes = {"", "bert."},
          .token_embedding = "nomic_bert.embeddings.word_embeddings",
          .type_embedding = "nomic_bert.embeddings.token_type_embeddings",
          .embedding_norm = "nomic_bert.emb_ln",
          .layer = "nomic_bert.encoder.layers.{}.",
          .attention_norm = "norm1",
          .mlp_norm = "norm2",
          .attention_output = "attn.out_proj",
          .fused_qkv = "attn.Wqkv",
          .gate = "mlp.fc12",
          .up = "mlp.fc11",
          .down = "mlp.fc2"};
}

WeightNames plain_nomic_bert_names(ModelFormat format) {
  WeightNames names = nomic_bert_names(format);
  names.gate = "";
  if (format == ModelFormat::gguf) return names;
  names.up = "mlp.fc1";
  names.experts = {{.router = "mlp.router.layer",
                    .up = "mlp.experts.mlp.w1",
                    .down = "mlp.experts.mlp.w2",
                    .weight = "",
                    .joined = true,
                    .down_transposed = true,
                    .sum_bias = "mlp.experts.bias"}};
  return names;
}

// Nomic Embed 2: in every so-manyth layer, the second first.
void read_nomic_mixtures(Hyperparameters& h, ModelConfig& config) {
  const std::int32_t period = h.integer("moe_every_n_layers", 0);
  ExpertsConfig& experts = config.experts;
  experts.count = h.integer("num_experts", 0);
  experts.per_token = h.integer("moe_top_k", 1);
  experts.intermediate_size = config.intermediate_size;
  experts.renormalize = h.boolean("moe_normalize_expert_weights", false);
  h.only("num_shared_experts", 0);
  h.only("expert_choice_router", false);
  if (period < 1) {
    experts = {};
    return;
  }
  if (config.activation != "gelu")
    h.refuse("config.json: mixtures of NomicBert with another activation than 'gelu' are not supported");
  for (std::int32_t layer = 0; layer < listed_layers(config); ++layer)
    experts.layers.push_back(layer % period == 1 % period);
}

// A gated feed-forward and rotation instead of learned positions.
void read_nomic_bert(Hyperparameters& h, ModelConfig& config) {
  read_bert_like(h, config, 30528, 0);
  // As the files on hubs were written, under GPT-2's names.
  config.hidden_size = h.integer("n_embd", config.hidden_size);
  config.num_layers = h.integer("n_layer", config.num_layers);
  config.num_heads = config.num_kv_heads = h.integer("n_head", config.num_heads);
  config.intermediate_size = h.integer("n_inner", config.intermediate_size);
  config.head_size = h.integer("head_dim", divide(config.hidden_size, config.num_heads));
  config.norm_eps = h.number("layer_norm_epsilon", config.norm_eps);
  config.max_positions =
      h.written("max_position_embeddings") ? config.max_positions : h.integer("max_trained_positions", 2048);
  const std::string function = h.string("activation_function", h.string("hidden_act", "silu"));
  config.activation = function == "swiglu" ? "silu" : function;
  if (config.activation != "silu" && config.activation != "gelu")
    h.refuse("config.json: the activation of NomicBert can only be 'swiglu' or 'gelu'");
  if (config.activation == "gelu") config.names = plain_nomic_bert_names;
  read_nomic_mixtures(h, config);
  h.only("prenorm", false);
  h.only("use_rms_norm", false);
  if (h.number("rotary_emb_fraction", 1.0f) != 1.0f)
    h.refuse("config.json: 'rotary_emb_fraction' can only be 1");
  read_rope(h, config, h.number("rotary_emb_base", 1000.0f));
}

void read_gguf_nomic_bert(Hyperparameters& h, ModelConfig& config) {
  read_gguf_common(h, {.layer_norm = true, .encoder = true}, config);
  read_token_types(h, config);
  h.without_effect({"token_type_count", "moe_every_n_layers"});
}

void read_gguf_nomic_bert_moe(Hyperparameters& h, ModelConfig& config) {
  read_gguf_common(h,
                   {.activation = "gelu",
                    .layer_norm = true,
                    .encoder = true,
                    .experts = {.known = true, .renormalize = false}},
                   config);
  config.names = plain_nomic_bert_names;
  read_token_types(h, config);
  read_layers_with_routers(h, config);
  h.without_effect({"token_type_count", "moe_every_n_layers"});
}

}  // namespace

PAGODA_FAMILY(nomic_bert) = {
    .architecture = "nomic-bert",
    .configs = {{"NomicBertForMaskedLM", "NomicBertModel", "nomic_bert", read_nomic_bert}},
    .ggufs = {{"nomic-bert", read_gguf_nomic_bert}, {"nomic-bert-moe", read_gguf_nomic_bert_moe}},
    .describe = describe_nomic_bert,
    .names = nomic_bert_names,
    .row = {.name = "NomicBERT: nomic-embed-text v1.5, v2-moe",
            .differs = "rotation, gated SiLU; v2: biases, GELU, and a mixture in every second layer",
            .checked = "transformers, under the hub's names; v2: with the published mixture in its place",
            .vectors = true}};

}  // namespace pagoda
