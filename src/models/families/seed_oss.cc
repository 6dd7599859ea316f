// Seed-OSS: Llama with biases of queries, keys and values.
#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read_seed_oss(Hyperparameters& h, ModelInfo& model) {
  read_common(h,
              {.vocab_size = 155136,
               .intermediate_size = 27648,
               .num_layers = 64,
               .num_heads = 80,
               .num_kv_heads = 8,
               .max_positions = 524288,
               .norm_eps = 1e-6f,
               .bos = 0,
               .eos = 2,
               .pad = 1,
               .head_size = 128},
              model);
}

WeightNames names(ModelFormat format) {
  WeightNames names = llama_names(format);
  if (format == ModelFormat::gguf) names.mlp_norm = "post_attention_norm";
  return names;
}

void read_gguf(Hyperparameters& h, ModelInfo& model) { read_gguf_common(h, {}, model); }

}  // namespace

PAGODA_FAMILY(seed_oss) = {.architecture = "seed_oss",
                           .configs = {{"SeedOssForCausalLM", "SeedOssModel", "seed_oss", read_seed_oss}},
                           .ggufs = {{"seed_oss", read_gguf}},
                           .names = names,
                           .row = {.name = "Seed-OSS 36B",
                                   .differs = "biases",
                                   .checked = "transformers",
                                   .size = "36B",
                                   .config = R"({"model_type":"seed_oss"})"}};

}  // namespace pagoda
