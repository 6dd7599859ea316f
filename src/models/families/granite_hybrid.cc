// Granite 4 H: Granite with Mamba-2 instead of attention in most layers, with and without mixtures.
#include <algorithm>

#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read_granite_hybrid(Hyperparameters& h, ModelConfig& config) {
  read_granite_moe(h, config);
  config.experts.shared_intermediate_size = h.integer("shared_intermediate_size", 1024);
  read_mamba(h, std::int64_t{h.integer("mamba_expand", 2)} * config.hidden_size, config);
  set_state_size(config);
  const std::vector<Block> blocks = read_blocks(h);
  for (std::int32_t layer = 0; layer < listed_layers(config); ++layer)
    config.recurrent_layers.push_back(blocks.empty() ||
                                      (static_cast<std::size_t>(layer) < blocks.size() &&
                                       blocks[static_cast<std::size_t>(layer)] == Block::mamba));
  if (std::ranges::find(config.recurrent_layers, true) != config.recurrent_layers.end())
    h.only("hidden_act", "silu");  // the convolution has it, too
  if (!blocks.empty() && std::ssize(blocks) != config.num_layers)
    h.fail("layer_types", "a list with one entry for each layer");
  if (h.find("position_embedding_type") == nullptr || h.string("position_embedding_type", "") != "rope")
    rotate_nothing(config);
  // Every layer has the expert for all tokens; without others it is the layer's feed-forward.
  if (config.experts.count == 0) config.intermediate_size = config.experts.shared_intermediate_size;
}

WeightNames granite_names(ModelFormat format) {
  WeightNames names = with_mamba2(llama_names(format), format, "mamba");
  if (format == ModelFormat::gguf) return names;
  names.experts = granitemoe_experts();
  names.fused_gate_up = "shared_mlp.input_linear";  // models without experts
  names.down = "shared_mlp.output_linear";
  return names;
}

void read_gguf(Hyperparameters& h, ModelConfig& config) {
  read_gguf_common(
      h, {.interleaved_rows = true, .experts = {.known = true, .score = ExpertScore::softmax_of_chosen}},
      config);
  read_granite_scales(h, config);
  read_state_heads(h, config);
  read_kv_heads(h, config);
  config.state.norm_groups = config.state.num_key_heads;
  // "Finetuned" says whether attention rotates at all.
  if (!h.gguf()->boolean(concat(config.architecture, ".rope.scaling.finetuned")).value_or(true))
    rotate_nothing(config);
}

}  // namespace

PAGODA_FAMILY(granite_hybrid) = {
    .architecture = "granitehybrid",
    .configs = {{"GraniteMoeHybridForCausalLM", "GraniteMoeHybridModel", "granitemoehybrid",
                 read_granite_hybrid}},
    .ggufs = {{"granitehybrid", read_gguf}},
    .describe = mamba2_description,
    .names = granite_names,
    .row = {.name = "Granite 4 H: 350M to 32B-A9B",
            .differs = "Mamba-2 in most layers, attention without rotation, Granite's scales, with and "
                       "without mixtures; one rank only",
            .checked = "transformers",
            .size = "7B-A1B",
            .config = R"({"model_type":"granitemoehybrid","hidden_size":1536,"num_attention_heads":12,
                       "num_key_value_heads":4,"num_hidden_layers":40,"num_local_experts":64,
                       "num_experts_per_tok":6,"mamba_n_heads":48,"mamba_d_head":64,"mamba_d_state":128,
                       "hybrid_override_pattern":"MMMMM*MMMMMMMMM*MMMMMMMMM*MMMMMMMMM*MMMM"})"}};

}  // namespace pagoda
