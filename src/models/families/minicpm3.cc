// MiniCPM 3: latent attention with dense feed-forwards and scaled residuals.
#include <algorithm>
#include <cmath>

#include "models/reading.h"

namespace pagoda {
namespace {

void read_minicpm3(Hyperparameters& h, ModelInfo& model) {
  const auto layers = static_cast<float>(std::max(model.decoder.num_layers(), 1)),
             width = static_cast<float>(std::max(model.decoder.hidden_size, 1));
  model.decoder.embedding_scale = h.number("scale_emb", 12);
  scale_residual(
      h.number("scale_depth", h.written("scale_depth") ? std::sqrt(layers) : 1.4f) / std::sqrt(layers),
      model.decoder);
  model.decoder.logit_scale =
      h.number("dim_model_base", h.written("dim_model_base") ? width : 256.0f) / width;
  read_latent(
      h,
      {.query_rank = 768,
       .latent_size = 256,
       .nope_size = 64,
       .rope_size = 32,
       .value_size = divide(model.decoder.hidden_size, model.decoder.layers.front().attention()->num_heads)},
      model);
}

// The file leaves out what the family's only model has for scales.
void read_gguf(Hyperparameters& h, ModelInfo& model) {
  read_gguf_latent(h, model);
  RopeConfig& rope = model.decoder.ropes.front();
  if (rope.original_positions == 0) rope.original_positions = model.decoder.max_positions;
  model.decoder.embedding_scale = 12;
  scale_residual(1.4f / std::sqrt(static_cast<float>(model.decoder.num_layers())), model.decoder);
  model.decoder.logit_scale = 256.0f / static_cast<float>(model.decoder.hidden_size);
}

}  // namespace

PAGODA_FAMILY(minicpm3) = {.configs = {{"MiniCPM3ForCausalLM",
                                        "minicpm3",
                                        {.vocab_size = 73448,
                                         .hidden_size = 2560,
                                         .intermediate_size = 6400,
                                         .num_layers = 62,
                                         .num_heads = 40,
                                         .num_kv_heads = 40,
                                         .max_positions = 32768,
                                         .bos = 1,
                                         .eos = 2,
                                         .tied = true},
                                        read_minicpm3}},
                           .ggufs = {{"minicpm3", {.latent = true}, read_gguf}},
                           .names = latent_names,
                           .row = {.name = "MiniCPM 3 4B",
                                   .differs = "latent attention, three scales, longrope",
                                   .size = "4B",
                                   .config = R"({"model_type":"minicpm3"})"}};

}  // namespace pagoda
