// Granite with mixtures, in which gate and up of all experts are one tensor.
#include "models/reading.h"

namespace pagoda {
namespace {

void read(Hyperparameters& h, ModelInfo& model) { read_granite_moe(h, 0, model); }

}  // namespace

PAGODA_FAMILY(granitemoe) = {
    .configs = {{"GraniteMoeForCausalLM", "granitemoe", {}, read, Reads::all},
                {"GraniteMoeSharedForCausalLM", "granitemoeshared", {}, read, Reads::all}},
    .ggufs = {{"granitemoe",
               {.interleaved_rows = true,
                .experts = {.known = true, .score = RouterScore::softmax_of_chosen}},
               read_gguf_granite}},
    .folder_names = [](WeightNames& names) { names.experts = granitemoe_experts(); },
    .row = {.name = "Granite 3 MoE: 1B-A400M, 3B-A800M",
            .differs = "Granite with mixtures",
            .size = "3B-A800M",
            .config = R"({"model_type":"granitemoe","hidden_size":1536,"num_attention_heads":24,
                       "num_key_value_heads":8})"}};

}  // namespace pagoda
