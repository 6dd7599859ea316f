// BitNet b1.58: Llama with a norm before the last matrix of each sublayer. The folder's quantization_config
// says that its weights are ternary. Source: arXiv 2402.17764, transformers' modeling_bitnet.
#include "models/reading.h"

namespace pagoda::bitnet {

void shape(DecoderConfig& decoder) {
  each_attention(decoder, [](AttentionConfig& attention) { attention.inner_norm = true; });
  for (LayerConfig& layer : decoder.layers) layer.dense()->inner_norm = true;
}

void names(WeightNames& names) {
  names.attention_inner_norm = "self_attn.attn_sub_norm";
  names.mlp_inner_norm = "mlp.ffn_sub_norm";
}

extern const Family family = {
    .configs = {{"BitNetForCausalLM", "bitnet",
                 R"({"vocab_size":128256,"hidden_size":2560,"intermediate_size":6912,"num_hidden_layers":30,
                     "num_attention_heads":20,"num_key_value_heads":5,"rope_theta":500000,
                     "bos_token_id":128000,"eos_token_id":128001,"hidden_act":"relu2"})"}},
    .ggufs = {{"bitnet"}},
    .shape = shape,
    .names = names,
    .row = {.name = "BitNet b1.58 2B-4T",
            .differs = "a norm before the last matrix of each sublayer, squared ReLU",
            .size = "2B"}};

}  // namespace pagoda::bitnet
