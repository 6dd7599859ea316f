// MiniCPM 3: latent attention with dense feed-forwards and scaled residuals.
#include <algorithm>
#include <cmath>

#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read_minicpm3(Hyperparameters& h, ModelConfig& config) {
  read_common(h,
              {.vocab_size = 73448,
               .hidden_size = 2560,
               .intermediate_size = 6400,
               .num_layers = 62,
               .num_heads = 40,
               .num_kv_heads = 40,
               .max_positions = 32768,
               .norm_eps = 1e-5f,
               .rope_theta = 10000.0f,
               .bos = 1,
               .eos = 2,
               .tied = true},
              config);
  const auto layers = static_cast<float>(std::max(config.num_layers, 1)),
             width = static_cast<float>(std::max(config.hidden_size, 1));
  config.embedding_scale = h.number("scale_emb", 12);
  config.residual_scale =
      h.number("scale_depth", h.written("scale_depth") ? std::sqrt(layers) : 1.4f) / std::sqrt(layers);
  config.logit_scale = h.number("dim_model_base", h.written("dim_model_base") ? width : 256.0f) / width;
  read_latent(h,
              {.rank = 256,
               .query_rank = 768,
               .nope_size = 64,
               .rope_size = 32,
               .value_size = divide(config.hidden_size, config.num_heads)},
              config);
}

// The file leaves out what the family's only model has for scales.
void read_gguf(Hyperparameters& h, ModelConfig& config) {
  read_gguf_common(h, {.latent = true}, config);
  read_gguf_latent(h, config);
  if (config.rope_original_positions == 0) config.rope_original_positions = config.max_positions;
  if (config.num_layers < 1 || config.hidden_size < 1) return;
  config.embedding_scale = 12;
  config.residual_scale = 1.4f / std::sqrt(static_cast<float>(config.num_layers));
  config.logit_scale = 256.0f / static_cast<float>(config.hidden_size);
}

}  // namespace

PAGODA_FAMILY(minicpm3) = {.architecture = "minicpm3",
                           .configs = {{"MiniCPM3ForCausalLM", "MiniCPM3Model", "minicpm3", read_minicpm3}},
                           .ggufs = {{"minicpm3", read_gguf}},
                           .describe = latent_description,
                           .names = latent_names,
                           .row = {.name = "MiniCPM 3 4B",
                                   .differs = "latent attention, three scales, longrope",
                                   .checked = "transformers",
                                   .size = "4B",
                                   .config = R"({"model_type":"minicpm3"})"}};

}  // namespace pagoda
