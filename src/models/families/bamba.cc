// Bamba: Mamba-2 in most layers; attention that rotates half of each head in the others; gated feed-forwards.
#include <algorithm>

#include "models/reading.h"

namespace pagoda::bamba {

void read_bamba(Hyperparameters& h, ModelInfo& model) {
  h.only("hidden_act", "silu");  // also used by the convolution
  // Implied by other fields or by tensors; the rotated share is the same in all models.
  h.without_effect(
      "attn_rotary_emb layer_types layers_block_type mamba_proj_bias num_logits_to_keep z_loss_coefficient");
  const LinearAttentionConfig states =
      read_mamba(h, std::int64_t{h.integer("mamba_expand", 2)} * model.decoder.hidden_size);
  std::vector<std::int32_t> attention;
  if (h.find("attn_layer_indices") != nullptr) attention = h.integers("attn_layer_indices");
  use_mixer(
      h, states,
      layers_where(
          model, [&](std::int32_t layer) { return std::ranges::find(attention, layer) == attention.end(); }),
      model);
}

void bamba_names(WeightNames& names) {
  mamba2_names(names, "mamba");
  beside_states_names(names);
}

extern const Family family = {
    .architecture = "bamba",
    .configs =
        {{"BambaForCausalLM", "bamba",
          R"({"vocab_size":128000,"intermediate_size":14336,"num_key_value_heads":8,"rms_norm_eps":1e-5,
                     "max_position_embeddings":262144,"bos_token_id":1,"eos_token_id":2,"pad_token_id":0,
                     "partial_rotary_factor":0.5})",
          read_bamba}},
    .names = bamba_names,
    .row = {.name = "Bamba 9B",
            .differs = "Mamba-2 in most layers, RoPE on half of each head in the others",
            .size = "9B",
            .config = R"({"model_type":"bamba","attn_layer_indices":[9,18,27]})"}};

}  // namespace pagoda::bamba
