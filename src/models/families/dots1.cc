// dots.llm1: Qwen3 with mixtures behind dense layers, and shared experts.
#include "models/reading.h"

namespace pagoda {

PAGODA_FAMILY(dots1) = {
    .configs = {{"Dots1ForCausalLM",
                 "dots1",
                 {.vocab_size = 152064,
                  .hidden_size = 4608,
                  .intermediate_size = 10944,
                  .num_layers = 62,
                  .norm_eps = 1e-6f},
                 [](Hyperparameters& h, ModelInfo& model) {
                   read_listed_windows(h, 4096, model);
                   read_deepseek_like(
                       h, {.count = 0, .per_token = 0, .shared = 0, .dense = 0, .renormalize = false}, model);
                 }}},
    .ggufs = {{"dots1", {.experts = {.known = true, .score = RouterScore::sigmoid, .renormalize = false}}}},
    .shape = norm_heads,
    .folder_experts = ExpertPlaces{.shared = "shared_experts"},
    .row = {.name = "dots.llm1",
            .differs = "Qwen 3 with GLM 4.5's routing and shared experts",
            .size = "142B-A14B",
            .config = R"({"model_type":"dots1","hidden_size":4096,"n_routed_experts":128,
                       "num_experts_per_tok":6})"}};

}  // namespace pagoda
