// GPT-BigCode (StarCoder 1, SantaCoder): GPT-2 with a single key-value head.
#include "models/reading.h"

namespace pagoda::gpt_bigcode {

void read(Hyperparameters& h, ModelInfo& model) {
  read_gpt2(h, model);
  each_attention(model.decoder, [](AttentionConfig& attention) { attention.num_kv_heads = 1; });
  h.only("multi_query", true);
  h.without_effect(
      "attention_softmax_in_fp32 scale_attention_softmax_in_fp32 inference_runner "
      "validate_runner_input pre_allocate_kv_cache max_batch_size max_sequence_length "
      "pad_key_length");
}

void names(WeightNames& names) {
  gpt2_names(names);
  names.transposed = false;
}

extern const Family family = {
    .configs =
        {{"GPTBigCodeForCausalLM", "gpt_bigcode",
          R"({"vocab_size":50257,"n_embd":768,"n_layer":12,"n_head":12,"n_positions":1024,"n_inner":null,
              "bos_token_id":50256,"eos_token_id":50256,"tie_word_embeddings":true,"layer_norm_epsilon":1e-5,
              "activation_function":"gelu_pytorch_tanh"})",
          read, Reads::all}},
    .ggufs = {{"starcoder", {}, read_gguf_gpt2, Reads::all}},
    .shape = gpt2_shape,
    .names = names,
    .row = {.name = "GPT-BigCode: StarCoder 1, StarCoderBase, SantaCoder",
            .differs = "layer norm, learned positions, one key-value head",
            .size = "15B",
            .config =
                R"({"model_type":"gpt_bigcode","n_embd":6144,"n_layer":40,"n_head":48,"n_positions":8192})"}};

}  // namespace pagoda::gpt_bigcode
