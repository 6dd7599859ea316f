// Seed-OSS: Llama with biases of queries, keys and values.
#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read_seed_oss(Hyperparameters& h, ModelConfig& config) {
  read_common(h,
              {.vocab_size = 155136,
               .hidden_size = 4096,
               .intermediate_size = 27648,
               .num_layers = 64,
               .num_heads = 80,
               .num_kv_heads = 8,
               .max_positions = 524288,
               .norm_eps = 1e-6f,
               .rope_theta = 10000.0f,
               .bos = 0,
               .eos = 2,
               .pad = 1,
               .head_size = 128},
              config);
}

WeightNames names(ModelFormat format) {
  WeightNames names = llama_names(format);
  if (format == ModelFormat::gguf) names.mlp_norm = "post_attention_norm";
  return names;
}

void read_gguf(Hyperparameters& h, ModelConfig& config) { read_gguf_common(h, {}, config); }

}  // namespace

PAGODA_FAMILY(seed_oss) = {.architecture = "seed_oss",
                           .configs = {{"SeedOssForCausalLM", "SeedOssModel", "seed_oss", read_seed_oss}},
                           .ggufs = {{"seed_oss", read_gguf}},
                           .describe = common_description,
                           .names = names,
                           .row = {.name = "Seed-OSS 36B",
                                   .differs = "biases",
                                   .checked = "transformers",
                                   .size = "36B",
                                   .config = R"({"model_type":"seed_oss"})"}};

}  // namespace pagoda
