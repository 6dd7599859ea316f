// dots.llm1: Qwen3 with mixtures after dense layers, and shared experts.
#include "models/reading.h"

namespace pagoda::dots1 {

extern const Family family = {
    .configs = {{"Dots1ForCausalLM", "dots1",
                 R"({"vocab_size":152064,"hidden_size":4608,"intermediate_size":10944,"num_hidden_layers":62,
                     "rms_norm_eps":1e-6,"sliding_window":4096,"moe_intermediate_size":1408,
                     "norm_topk_prob":false,"routed_scaling_factor":1})",
                 [](Hyperparameters& h, ModelInfo& model) {
                   read_listed_windows(h, model);
                   read_deepseek_like(h, model);
                 }}},
    .ggufs = {{"dots1", {.experts = {.known = true, .score = RouterScore::sigmoid, .renormalize = false}}}},
    .shape = norm_heads,
    .folder_experts = ExpertPlaces{.shared = "shared_experts"},
    .row = {.name = "dots.llm1",
            .differs = "Qwen 3 with GLM 4.5's routing and shared experts",
            .size = "142B-A14B",
            .config = R"({"model_type":"dots1","hidden_size":4096,"n_routed_experts":128,
                          "num_experts_per_tok":6})"}};

}  // namespace pagoda::dots1
