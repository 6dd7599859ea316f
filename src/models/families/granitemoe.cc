// Granite with mixtures, in which gate and up of all experts are one tensor.
#include "models/reading.h"

namespace pagoda {
namespace {

void read(Hyperparameters& h, ModelInfo& model) { read_granite_moe(h, 0, model); }

WeightNames names(ModelFormat format) {
  WeightNames names = llama_names(format);
  if (format == ModelFormat::hugging_face) names.experts = granitemoe_experts();
  return names;
}

void read_gguf(Hyperparameters& h, ModelInfo& model) {
  read_granite_scales(h, model);
  // Files of Granite 4 whose layers all attend keep the sizes of states that no layer has.
  h.without_effect("ssm.conv_kernel ssm.time_step_rank ssm.group_count ssm.state_size ssm.inner_size");
}

}  // namespace

PAGODA_FAMILY(granitemoe) = {
    .configs = {{"GraniteMoeForCausalLM", "granitemoe", {}, read, Reads::all},
                {"GraniteMoeSharedForCausalLM", "granitemoeshared", {}, read, Reads::all}},
    .ggufs = {{"granitemoe",
               {.interleaved_rows = true,
                .experts = {.known = true, .score = RouterScore::softmax_of_chosen}},
               read_gguf}},
    .names = names,
    .row = {.name = "Granite 3 MoE: 1B-A400M, 3B-A800M",
            .differs = "Granite with mixtures",
            .size = "3B-A800M",
            .config = R"({"model_type":"granitemoe","hidden_size":1536,"num_attention_heads":24,
                       "num_key_value_heads":8})"}};

}  // namespace pagoda
