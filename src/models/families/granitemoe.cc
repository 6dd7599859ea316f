// Granite with mixtures, in which gate and up of all experts are one tensor.
#include "models/reading.h"

namespace pagoda::granitemoe {

constexpr std::string_view kAbsent =
    R"({"intermediate_size":11008,"rms_norm_eps":1e-6,"bos_token_id":1,"eos_token_id":2,"num_local_experts":8,
        "num_experts_per_tok":2,"shared_intermediate_size":0})";

extern const Family family = {
    .configs = {{"GraniteMoeForCausalLM", "granitemoe", kAbsent, read_granite_moe},
                {"GraniteMoeSharedForCausalLM", "granitemoeshared", kAbsent, read_granite_moe}},
    .ggufs = {{"granitemoe",
               {.interleaved_rows = true,
                .experts = {.known = true, .score = RouterScore::softmax_of_chosen}},
               read_gguf_granite}},
    .names = [](WeightNames& names) { names.experts = granitemoe_experts(); },
    .row = {.name = "Granite 3 MoE: 1B-A400M, 3B-A800M",
            .differs = "Granite with mixtures",
            .size = "3B-A800M",
            .config = R"({"model_type":"granitemoe","hidden_size":1536,"num_attention_heads":24,
                          "num_key_value_heads":8})"}};

}  // namespace pagoda::granitemoe
