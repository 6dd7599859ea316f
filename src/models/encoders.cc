// Encoders: every token attends to all others of its text, and the hidden states are what is asked for.
#include "models/architecture.h"

namespace pagoda {
namespace {

// BERT and RoBERTa: learned positions, a norm of the embedding and behind each half, biases everywhere.
Result<DecoderConfig> describe_bert(const ModelConfig& config) {
  auto encoder = layer_norm_description(config);
  if (!encoder) return encoder.error();
  for (LayerConfig& layer : encoder->layers) {
    layer.mixer_norms = layer.feed_forward_norms = {.input = false, .branch = false, .sum = true};
    layer.attention()->rope = kNoRope;
    layer.dense()->gated = false;
  }
  encoder->embedding_norm = encoder->final_norm;
  encoder->final_norm.reset();
  encoder->ropes.clear();
  encoder->learned_positions = true;
  encoder->position_offset = config.position_offset;
  encoder->token_types = config.token_types;
  return encoder;
}

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

// Norms before each half as in Llama; the first layer reads the embedding's norm.
Result<DecoderConfig> describe_modern_bert(const ModelConfig& config) {
  auto encoder = layer_norm_description(config);
  if (!encoder) return encoder.error();
  encoder->embedding_norm = encoder->final_norm;
  encoder->layers.front().mixer_norms.input = false;
  return encoder;
}

WeightNames gguf_names() {
  WeightNames names = llama_names(ModelFormat::gguf);
  names.position_embedding = "position_embd";
  names.type_embedding = "token_types";
  names.embedding_norm = "token_embd_norm";
  names.attention_norm = "attn_output_norm";
  names.mlp_norm = "layer_output_norm";
  names.rope_factors = "";
  names.fused_qkv = "attn_qkv";
  return names;
}

WeightNames bert_names(ModelFormat format) {
  if (format == ModelFormat::gguf) {
    WeightNames names = gguf_names();
    names.gate = names.fused_qkv = "";
    return names;
  }
  std::vector<std::string> others;
  for (const char* name :
       {"bert.pooler.dense", "classifier", "classifier.dense", "classifier.out_proj", "cls.predictions",
        "cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions.decoder",
        "cls.seq_relationship", "lm_head", "lm_head.dense", "lm_head.layer_norm", "lm_head.decoder"})
    for (const char* part : {".weight", ".bias"}) others.push_back(std::string(name) + part);
  return {.prefix = "bert.",
          .other_prefixes = {"", "roberta."},
          .token_embedding = "bert.embeddings.word_embeddings",
          .position_embedding = "bert.embeddings.position_embeddings",
          .type_embedding = "bert.embeddings.token_type_embeddings",
          .embedding_norm = "bert.embeddings.LayerNorm",
          .of_other_heads = std::move(others),
          .layer = "bert.encoder.layer.{}.",
          .attention_norm = "attention.output.LayerNorm",
          .mlp_norm = "output.LayerNorm",
          .query = "attention.self.query",
          .key = "attention.self.key",
          .value = "attention.self.value",
          .attention_output = "attention.output.dense",
          .up = "intermediate.dense",
          .down = "output.dense"};
}

WeightNames nomic_bert_names(ModelFormat format) {
  if (format == ModelFormat::gguf) return gguf_names();
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

WeightNames modern_bert_names(ModelFormat format) {
  if (format == ModelFormat::gguf) {
    WeightNames names = llama_names(format);
    names.embedding_norm = "token_embd_norm";
    names.rope_factors = "";
    names.fused_qkv = "attn_qkv";
    names.fused_gate_up = "ffn_up";
    return names;
  }
  std::vector<std::string> others;
  for (const char* name : {"head.dense", "head.norm", "classifier", "decoder"})
    for (const char* part : {".weight", ".bias"}) others.push_back(std::string(name) + part);
  return {.prefix = "model.",
          .other_prefixes = {""},
          .token_embedding = "model.embeddings.tok_embeddings",
          .embedding_norm = "model.embeddings.norm",
          .final_norm = "model.final_norm",
          .of_other_heads = std::move(others),
          .layer = "model.layers.{}.",
          .attention_norm = "attn_norm",
          .mlp_norm = "mlp_norm",
          .attention_output = "attn.Wo",
          .fused_qkv = "attn.Wqkv",
          .down = "mlp.Wo",
          .fused_gate_up = "mlp.Wi"};
}

}  // namespace

const Architecture kBert = {"bert", describe_bert, bert_names};
const Architecture kNomicBert = {"nomic-bert", describe_nomic_bert, nomic_bert_names};
const Architecture kNomicBertPlain = {"nomic-bert plain", describe_nomic_bert, plain_nomic_bert_names};
const Architecture kModernBert = {"modern-bert", describe_modern_bert, modern_bert_names};

}  // namespace pagoda
