// OPT: layer norm, learned positions that start at row 2, biases everywhere, plain ReLU MLP. The 350m model
// normalises after each sublayer, has no final norm, and projects its smaller embedding in and out.
#include "models/reading.h"

namespace pagoda::opt {

void read_opt(Hyperparameters& h, ModelInfo& model) {
  read_plain_layers(h, model);
  DecoderConfig& decoder = model.decoder;
  decoder.embedding_size = h.integer("word_embed_proj_dim", decoder.hidden_size);
  h.without_effect("enable_bias");  // implied by the tensors
  h.only("layer_norm_elementwise_affine", true);
  plain_layer_norm_shape(decoder);
  decoder.learned_positions = true;
  decoder.position_offset = 2;
  const bool before = h.boolean("do_layer_norm_before", true);
  if (!before) norm_sums(decoder);
  if (h.boolean("_remove_final_layer_norm", false) || !before) decoder.final_norm.reset();
}

void names(WeightNames& names) {
  names = {.prefix = "model.",
           .other_prefixes = {""},
           .token_embedding = "model.decoder.embed_tokens",
           .position_embedding = "model.decoder.embed_positions",
           .project_in = "model.decoder.project_in",
           .project_out = "model.decoder.project_out",
           .final_norm = "model.decoder.final_layer_norm",
           .head = "lm_head",
           .layer = "model.decoder.layers.{}.",
           .attention_norm = "self_attn_layer_norm",
           .mlp_norm = "final_layer_norm",
           .query = "self_attn.q_proj",
           .key = "self_attn.k_proj",
           .value = "self_attn.v_proj",
           .attention_output = "self_attn.out_proj",
           .up = "fc1",
           .down = "fc2"};
}

extern const Family family = {
    .architecture = "opt",
    .configs = {{"OPTForCausalLM", "opt",
                 R"({"vocab_size":50272,"hidden_size":768,"ffn_dim":3072,"num_hidden_layers":12,
                     "num_attention_heads":12,"bos_token_id":2,"eos_token_id":2,"pad_token_id":1,
                     "tie_word_embeddings":true,"activation_function":"relu"})",
                 read_opt, Reads::all}},
    .names = names,
    .row = {.name = "OPT: 125M to 66B",
            .differs = "layer norm, learned positions, ReLU",
            .size = "13B",
            .config = R"({"model_type":"opt","hidden_size":5120,"num_hidden_layers":40,
                          "num_attention_heads":40})"}};

}  // namespace pagoda::opt
