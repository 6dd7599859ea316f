// Mixtral: Mistral with mixtures. As GGUF it comes as "llama".
#include "models/reading.h"

namespace pagoda {
namespace {

void read_mixtral(Hyperparameters& h, ModelInfo& model) {
  Defaults absent = kMistral;
  absent.norm_eps = 1e-5f;
  absent.rope_theta = 1000000.0f;
  read_common(h, absent, model);
  use_windows(h, h.integer("sliding_window", 0), {}, model);
  MixtureConfig mixture = read_experts(h, {.count = 8, .per_token = 2}, model);
  mixture.routing.renormalize = true;
  use_mixtures(mixture, {}, model);
}

}  // namespace

PAGODA_FAMILY(mixtral) = {
    .architecture = "mixtral",
    .configs = {{"MixtralForCausalLM", "mixtral", {}, read_mixtral, Reads::all}},
    .ggufs = {{"llama", {.interleaved_rows = true, .experts = {.known = true}}}},
    .folder_names = [](WeightNames& names) { names.experts = mixtral_experts(); },
    .only_experts = true,
    .row = {.name = "Mixtral 8x7B, 8x22B",
            .differs = "mixtures of experts; in GGUF stacked, or one by one as old files have them",
            .size = "8x7B",
            .config = R"({"model_type":"mixtral"})"}};

}  // namespace pagoda
