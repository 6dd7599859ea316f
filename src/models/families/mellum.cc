// Mellum 2 (JetBrains): Qwen 3 with mixtures, and windows that rotate by a base of their own.
#include "models/reading.h"

namespace pagoda {
namespace {

// Qwen3's with windows, which rotate by a base of their own.
void read_mellum(Hyperparameters& h, ModelInfo& model) {
  read_listed_windows(h, 1024, model);
  MixtureConfig mixture = read_experts(h, {.count = 64, .per_token = 8, .intermediate = 896}, model);
  mixture.routing.renormalize = h.boolean("norm_topk_prob", true);
  use_mixtures(mixture, read_mlp_types(h, 0, model), model);
  h.without_effect("num_mtp_layers mtp_layer_types mtp_mlp_layer_types");
}

void read_gguf(Hyperparameters& h, ModelInfo& model) {
  rotate_windows_by(h.number("rope.freq_base_swa", model.decoder.ropes.front().theta), model);
  read_gguf_window_pattern(h, 4, model);
}

}  // namespace

PAGODA_FAMILY(mellum) = {.configs = {{"MellumForCausalLM",
                                      "mellum",
                                      {.vocab_size = 98304,
                                       .hidden_size = 2304,
                                       .intermediate_size = 7168,
                                       .num_layers = 28,
                                       .num_kv_heads = 4,
                                       .max_positions = 131072,
                                       .norm_eps = 1e-6f,
                                       .rope_theta = 500000.0f,
                                       .head_size = 128,
                                       .partial = 1,
                                       .local_theta = 10000.0f},
                                      read_mellum}},
                         .ggufs = {{"mellum", {.experts = {.known = true}}, read_gguf}},
                         .shape = norm_heads,
                         .folder_experts = ExpertPlaces{},
                         .row = {.name = "Mellum 2 12B-A2.5B",
                                 .differs = "Qwen 3 with mixtures, windows with a rotation of their own",
                                 .size = "12B-A2.5B",
                                 .config = R"({"model_type":"mellum",
                       "layer_types":["full_attention","sliding_attention","sliding_attention","sliding_attention","full_attention","sliding_attention","sliding_attention","sliding_attention","full_attention","sliding_attention","sliding_attention","sliding_attention","full_attention","sliding_attention","sliding_attention","sliding_attention","full_attention","sliding_attention","sliding_attention","sliding_attention","full_attention","sliding_attention","sliding_attention","sliding_attention","full_attention","sliding_attention","sliding_attention","sliding_attention"]})"}};

}  // namespace pagoda
