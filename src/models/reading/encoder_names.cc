// Names of the tensors of BERT and its relatives.
#include "models/reading.h"

namespace pagoda {

void encoder_gguf_names(WeightNames& names) {
  names.position_embedding = "position_embd";
  names.type_embedding = "token_types";
  names.embedding_norm = "token_embd_norm";
  names.attention_norm = "attn_output_norm";
  names.mlp_norm = "layer_output_norm";
  names.rope_factors = "";
}

void bert_names(WeightNames& names, bool gguf) {
  if (gguf) {
    names.gate = names.fused_qkv = "";
    return encoder_gguf_names(names);
  }
  std::vector<std::string> others;
  for (const char* name :
       {"bert.pooler.dense", "classifier", "classifier.dense", "classifier.out_proj", "cls.predictions",
        "cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions.decoder",
        "cls.seq_relationship", "lm_head", "lm_head.dense", "lm_head.layer_norm", "lm_head.decoder"})
    for (const char* part : {".weight", ".bias"}) others.push_back(std::string(name) + part);
  names = {.prefix = "bert.",
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

}  // namespace pagoda
