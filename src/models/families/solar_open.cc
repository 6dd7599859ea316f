// Solar Open (Upstage): Llama with mixtures in every layer, chosen as DeepSeek-V3's.
#include "models/reading.h"

namespace pagoda {
namespace {

void read(Hyperparameters& h, ModelInfo& model) {
  h.only("use_qk_norm", false);
  h.only("first_k_dense_replace", 0);
  read_deepseek_like(
      h, {.count = 128, .per_token = 8, .shared = 1, .dense = 0, .renormalize = true, .intermediate = 1280},
      model);
}

}  // namespace

PAGODA_FAMILY(solar_open) = {.architecture = "solar-open",
                             .configs = {{"SolarOpenForCausalLM",
                                          "solar_open",
                                          {.vocab_size = 196608,
                                           .intermediate_size = 10240,  // no layer has it
                                           .num_layers = 48,
                                           .num_heads = 64,
                                           .num_kv_heads = 8,
                                           .max_positions = 131072,
                                           .rope_theta = 1000000.0f,
                                           .head_size = 128},
                                          read}},
                             .folder_experts = ExpertPlaces{.shared = "shared_experts"},
                             .row = {.name = "Solar Open 100B",
                                     .differs = "mixtures in every layer, sigmoid routing with a correction",
                                     .size = "100B",
                                     .config = R"({"model_type":"solar_open"})"}};

}  // namespace pagoda
