// Granite 4 H: Granite with Mamba-2 instead of attention in most layers, with and without mixtures.
#include <algorithm>

#include "models/reading.h"

namespace pagoda::granite_hybrid {

void read_granite_hybrid(Hyperparameters& h, ModelInfo& model) {
  read_granite_moe(h, model);
  const LinearAttentionConfig states =
      read_mamba(h, std::int64_t{h.integer("mamba_expand", 2)} * model.decoder.hidden_size);
  const std::vector<Block> blocks = read_blocks(h);
  std::vector<bool> recurrent(model.decoder.layers.size(), true);
  if (!blocks.empty() && blocks.size() != recurrent.size())
    return h.fail("layer_types", "a list with one entry for each layer");
  for (std::size_t layer = 0; layer < blocks.size(); ++layer)
    recurrent[layer] = blocks[layer] == Block::mamba;
  if (std::ranges::find(recurrent, true) != recurrent.end())
    h.only("hidden_act", "silu");  // also used by the convolution
  if (h.find("position_embedding_type") == nullptr || h.string("position_embedding_type", "") != "rope")
    rotate_nothing(model.decoder);
  use_mixer(h, states, recurrent, model);
}

void granite_names(WeightNames& names) {
  mamba2_names(names, "mamba");
  names.experts = granitemoe_experts();
  names.fused_gate_up = "shared_mlp.input_linear";  // in models without experts
  names.down = "shared_mlp.output_linear";
}

void read_gguf(Hyperparameters& h, ModelInfo& model) {
  read_granite_scales(h, model);
  use_mixer(h, read_state_heads(h), layers_with_states(h, model), model);
  // "finetuned" says whether attention rotates at all.
  if (!h.gguf()->boolean(concat(model.architecture, ".rope.scaling.finetuned")).value_or(true))
    rotate_nothing(model.decoder);
}

extern const Family family = {
    .configs = {{"GraniteMoeHybridForCausalLM", "granitemoehybrid",
                 R"({"intermediate_size":11008,"rms_norm_eps":1e-6,"bos_token_id":1,"eos_token_id":2,
                     "num_local_experts":8,"num_experts_per_tok":2,"shared_intermediate_size":1024})",
                 read_granite_hybrid}},
    .ggufs = {{"granitehybrid",
               {.interleaved_rows = true,
                .experts = {.known = true, .score = RouterScore::softmax_of_chosen}},
               read_gguf}},
    .names = granite_names,
    .gguf_names = granite_gguf_names,
    .row = {.name = "Granite 4 H: 350M to 32B-A9B",
            .differs = "Mamba-2 in most layers, attention without RoPE, Granite's scales, with and without "
                       "mixtures",
            .size = "7B-A1B",
            .config = R"({"model_type":"granitemoehybrid","hidden_size":1536,"num_attention_heads":12,
                          "num_key_value_heads":4,"num_hidden_layers":40,"num_local_experts":64,
                          "num_experts_per_tok":6,"mamba_n_heads":48,"mamba_d_head":64,"mamba_d_state":128,
                          "hybrid_override_pattern":"MMMMM*MMMMMMMMM*MMMMMMMMM*MMMMMMMMM*MMMM"})"}};

}  // namespace pagoda::granite_hybrid
