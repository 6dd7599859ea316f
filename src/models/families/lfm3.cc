// LFM3: LFM2 with norms before and after each sublayer, a gate per head, and windows with their own RoPE
// base.
#include "models/reading.h"

namespace pagoda::lfm3 {

void read(Hyperparameters& h, ModelInfo& model) {
  if (has_plain_rope(h)) model.decoder.ropes.front().turned = 64;
  std::vector<bool> windows = read_layers_called(h, "sliding_attention", {"full_attention", "conv"}, model);
  std::vector<bool> convolutions =
      read_layers_called(h, "conv", {"full_attention", "sliding_attention"}, model);
  for (std::int32_t layer = 0; windows.size() < model.decoder.layers.size(); ++layer) {
    windows.push_back(layer % 4 == 0 && layer > 0);
    convolutions.push_back(layer % 4 != 2 && !windows.back());
  }
  use_windows(h, read_window(h), windows, model);
  if (h.boolean("use_sandwich_norm", true)) norm_branches(model.decoder);
  if (h.boolean("use_attention_gate", true)) gate_outputs(model.decoder, OutputGate::sigmoid_of_head);
  norm_heads(model.decoder);
  use_mixer(
      h, ShortConvConfig{.num_channels = model.decoder.hidden_size, .num_taps = h.integer("conv_L_cache", 7)},
      convolutions, model);
}

void names(WeightNames& names) {
  lfm_names(names);
  names.attention_branch_norm = "post_operator_norm";
  names.mlp_branch_norm = "post_ffn_norm";
  names.output_gate = "self_attn.gate_proj";
}

extern const Family family = {
    .architecture = "lfm3",
    .configs = {{"Lfm3ForCausalLM", "lfm3",
                 R"({"vocab_size":128000,"hidden_size":2048,"intermediate_size":7680,"num_hidden_layers":24,
                     "num_attention_heads":16,"num_key_value_heads":4,"max_position_embeddings":128000,
                     "rope_theta":1000000,"bos_token_id":124894,"eos_token_id":124900,"pad_token_id":124893,
                     "tie_word_embeddings":true,"head_dim":128,"local_rope_theta":10000,"norm_eps":1e-5,
                     "sliding_window":256})",
                 read}},
    .names = names,
    .row = {.name = "LFM3 1.7B",
            .differs =
                "a short convolution in half of the layers, norms before and after each sublayer and of "
                "queries and keys, gates of each head, windows with their own RoPE base",
            .size = "1.7B"}};

}  // namespace pagoda::lfm3
