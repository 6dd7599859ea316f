// NomicBERT: BERT with rotation instead of learned positions and a gated feed-forward; in nomic-embed-text v2
// a plain one, and in every second layer a mixture of plain ones.
#include "models/reading.h"

namespace pagoda::nomic_bert {

void shape(DecoderConfig& decoder) {
  layer_norms(decoder);
  norm_sums(decoder);
  norm_embedding(decoder);
}

void nomic_bert_names(WeightNames& names) {
  names = {.prefix = "nomic_bert.",
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

void plain_nomic_bert_names(WeightNames& names) {
  nomic_bert_names(names);
  names.gate = "";
  names.up = "mlp.fc1";
  names.experts = {{.router = "mlp.router.layer",
                    .up = "mlp.experts.mlp.w1",
                    .down = "mlp.experts.mlp.w2",
                    .weight = "",
                    .joined = true,
                    .down_transposed = true,
                    .sum_bias = "mlp.experts.bias"}};
}

void use_plain(ModelInfo& model) {
  model.own_names = plain_nomic_bert_names;
  plain_feed_forwards(model.decoder);
}

// Nomic Embed 2: a mixture in every n-th layer, beginning with the second.
void read_nomic_mixtures(Hyperparameters& h, std::string_view activation, ModelInfo& model) {
  const std::int32_t period = h.integer("moe_every_n_layers", 0);
  MixtureConfig mixture;
  mixture.routing.num_experts = h.integer("num_experts", 0);
  mixture.routing.per_token = h.integer("moe_top_k", 1);
  mixture.routing.renormalize = h.boolean("moe_normalize_expert_weights", false);
  mixture.expert.intermediate_size = model.intermediate_size;
  h.only("num_shared_experts", 0);
  h.only("expert_choice_router", false);
  if (period < 1) return;
  if (activation != "gelu")
    h.refuse("config.json: mixtures of NomicBert with another activation than 'gelu' are not supported");
  use_mixtures(mixture, layers_where(model, [&](std::int32_t layer) { return layer % period == 1 % period; }),
               model);
}

// A gated feed-forward, and rotation instead of learned positions. Files on hubs use GPT-2's names.
void read_nomic_bert(Hyperparameters& h, ModelInfo& model) {
  const std::string function = h.string("activation_function", h.string("hidden_act", "silu"));
  const std::string activation = function == "swiglu" ? "silu" : function;
  if (activation != "silu" && activation != "gelu")
    return h.refuse("config.json: the activation of NomicBert can only be 'swiglu' or 'gelu'");
  read_bert(h, model, {.activation = activation});
  const std::int32_t trained = h.integer("max_trained_positions", 2048);
  if (!h.written("max_position_embeddings")) model.decoder.max_positions = trained;
  read_nomic_mixtures(h, activation, model);
  if (activation == "gelu") use_plain(model);
  h.only("prenorm", false);
  h.only("use_rms_norm", false);
  if (h.number("rotary_emb_fraction", 1.0f) != 1.0f)
    h.refuse("config.json: 'rotary_emb_fraction' can only be 1");
  read_rope(h, model, h.number("rotary_emb_base", 1000.0f));
}

void read_gguf_nomic_bert(Hyperparameters& h, ModelInfo& model) {
  read_token_types(h, model);
  h.without_effect("moe_every_n_layers");
}

void read_gguf_nomic_bert_moe(Hyperparameters& h, ModelInfo& model) {
  use_plain(model);
  read_token_types(h, model);
  h.without_effect("moe_every_n_layers");
}

extern const Family family = {
    .configs = {{"NomicBertForMaskedLM", "nomic_bert",
                 R"({"vocab_size":30528,"n_embd":768,"hidden_size":768,"n_layer":12,"num_hidden_layers":12,
                     "n_head":12,"num_attention_heads":12,"n_inner":3072,"intermediate_size":3072,
                     "max_position_embeddings":512,"layer_norm_epsilon":1e-12,"layer_norm_eps":1e-12,
                     "pad_token_id":0})",
                 read_nomic_bert, Reads::all}},
    .ggufs = {{"nomic-bert", {.layer_norm = true, .encoder = true}, read_gguf_nomic_bert},
              {"nomic-bert-moe",
               {.activation = "gelu",
                .layer_norm = true,
                .encoder = true,
                .experts = {.known = true, .renormalize = false}},
               read_gguf_nomic_bert_moe}},
    .shape = shape,
    .names = nomic_bert_names,
    .gguf_names = encoder_gguf_names,
    .row = {.name = "NomicBERT: nomic-embed-text v1.5, v2-moe",
            .differs = "RoPE, gated SiLU; v2: biases, GELU, and a mixture in every second layer",
            .checked = "transformers, under the hub's names; v2: with the published mixture in its place",
            .vectors = true}};

}  // namespace pagoda::nomic_bert
