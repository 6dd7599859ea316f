// InternLM 2 and 2.5: Llama with one matrix of queries, key and value grouped by key-value head.
#include "models/reading.h"

namespace pagoda::internlm2 {

void names(WeightNames& names) {
  names = {.prefix = "model.",
           .other_prefixes = {""},
           .token_embedding = "model.tok_embeddings",
           .final_norm = "model.norm",
           .head = "output",
           .layer = "model.layers.{}.",
           .attention_norm = "attention_norm",
           .mlp_norm = "ffn_norm",
           .attention_output = "attention.wo",
           .fused_qkv = "attention.wqkv",
           .qkv_by_group = true,
           .gate = "feed_forward.w1",
           .up = "feed_forward.w3",
           .down = "feed_forward.w2"};
}

extern const Family family = {.configs = {{"InternLM2ForCausalLM", "internlm2",
                                           R"({"vocab_size":103168,"intermediate_size":11008,
                                               "rms_norm_eps":1e-6,"bos_token_id":1,"eos_token_id":2,
                                               "pad_token_id":2})"}},
                              .ggufs = {{"internlm2", {.interleaved_rows = true}}},
                              .names = names,
                              .row = {.name = "InternLM 2, 2.5",
                                      .differs = "query, key and value in one matrix",
                                      .checked = "transformers' Llama on the same numbers",
                                      .size = "7B",
                                      .config = R"({"model_type":"internlm2","num_key_value_heads":8})"}};

}  // namespace pagoda::internlm2
