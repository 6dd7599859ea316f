// Command R, R+ (Cohere): layer norms without biases, one for parallel attention and feed-forward; rotation
// of adjacent pairs; scaled logits. R+ has norms of query and key heads.
#include "models/reading.h"

namespace pagoda::cohere {

void read(Hyperparameters& h, ModelInfo& model) {
  read_cohere(h, model);
  if (h.boolean("use_qk_norm", has_query_norm(h))) norm_each_head(model.decoder);
}

extern const Family family = {
    .architecture = "cohere",
    .configs = {{"CohereForCausalLM", "cohere",
                 R"({"vocab_size":256000,"hidden_size":8192,"intermediate_size":22528,"num_hidden_layers":40,
                     "num_attention_heads":64,"max_position_embeddings":8192,"bos_token_id":5,
                     "eos_token_id":255001,"pad_token_id":0,"tie_word_embeddings":true,"layer_norm_eps":1e-5,
                     "logit_scale":0.0625,"rope_interleave":true,"rope_theta":500000})",
                 read}},
    .ggufs = {{"command-r", {.layer_norm = true, .interleaved_rows = true, .parallel = true}, read}},
    .shape = layer_norms,
    .row = {
        .name = "Command R, R+",
        .differs =
            "layer norms, parallel attention and feed-forward, RoPE on adjacent pairs; R+: a norm per head",
        .size = "R 35B"}};

}  // namespace pagoda::cohere
