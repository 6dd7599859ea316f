// Mistral Small 4: DeepSeek-V2's latent attention with queries that grow with the position, and mixtures in
// all layers.
#include "models/reading.h"

namespace pagoda {
namespace {

void read(Hyperparameters& h, ModelInfo& model) {
  read_common(h,
              {.vocab_size = 131072,
               .intermediate_size = 12288,
               .num_layers = 36,
               .max_positions = 1048576,
               .norm_eps = 1e-6f,
               .bos = 1,
               .eos = 2,
               .pad = 11,
               .partial = 0.5f},  // read_latent() says how much
              model);
  model.decoder.interleaved_rows = h.boolean("rope_interleave", true);
  if (has_plain_rope(h)) return h.fail("rope_parameters", "given");
  read_deepseek_like(h,
                     {.count = 128,
                      .per_token = 4,
                      .shared = 1,
                      .dense = 0,
                      .renormalize = true,
                      .score = RouterScore::softmax,
                      .intermediate = 2048},
                     model);
  each_mixture(model.decoder, [](MixtureConfig& mixture) { mixture.routing.group_is_best_two = true; });
  read_latent(h,
              {.query_rank = 1024, .latent_size = 256, .nope_size = 64, .rope_size = 64, .value_size = 128},
              model);
}

void read_gguf(Hyperparameters& h, ModelInfo& model) {
  read_gguf_deepseek(h, model);
  h.without_effect("attention.temperature_length");
}

}  // namespace

PAGODA_FAMILY(mistral4) = {
    .configs = {{"Mistral4ForCausalLM", "mistral4", {}, read, Reads::all}},
    .ggufs = {{"mistral4", {}, read_gguf, Reads::all}},
    .names = latent_names,
    .row = {
        .name = "Mistral Small 4 119B-A6B (text)",
        .differs = "latent attention, YaRN, queries that grow with the position, mixtures, a shared expert",
        .size = "119B",
        .config = R"({"model_type":"mistral4","rope_parameters":{"rope_type":"yarn","factor":128,
                       "original_max_position_embeddings":8192}})"}};

}  // namespace pagoda
