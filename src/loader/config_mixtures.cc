// config.json of families whose layers have mixtures of experts.
#include <algorithm>

#include "loader/config_families.h"

namespace pagoda {
namespace {

// transformers writes some fields under either of two names.
std::int32_t integer_of(Fields& fields, std::initializer_list<std::string_view> names,
                        std::int32_t otherwise) {
  for (const std::string_view name : names)
    if (fields.find(name) != nullptr) return fields.integer(name, otherwise);
  return otherwise;
}

std::int32_t num_experts(Fields& fields, std::int32_t otherwise) {
  return integer_of(fields, {"num_experts", "num_local_experts", "n_routed_experts"}, otherwise);
}

void no_windows(Fields& fields) { fields.only("use_sliding_window", false); }

// Layers of which every `step`-th has a mixture, but for those named.
void read_sparse_layers(Fields& fields, ModelConfig& config) {
  const std::int32_t step = fields.integer("decoder_sparse_step", 1);
  const std::vector<std::int32_t> dense = fields.integers("mlp_only_layers");
  if (step < 1) return fields.fail("decoder_sparse_step", "a positive integer");
  for (std::int32_t layer = 0; layer < listed_layers(config); ++layer)
    config.experts.layers.push_back((layer + 1) % step == 0 &&
                                    std::find(dense.begin(), dense.end(), layer) == dense.end());
}

}  // namespace

void read_qwen2_moe(Fields& fields, ModelConfig& config) {
  read_common(fields, {151936, 2048, 5632, 24, 16, 16, 32768, 1e-6f, 10000.0f, -1, -1, -1, false}, config);
  config.attention_bias = fields.boolean("qkv_bias", true);
  no_windows(fields);
  ExpertsConfig& experts = config.experts;
  experts.count = num_experts(fields, 60);
  experts.per_token = fields.integer("num_experts_per_tok", 4);
  experts.intermediate_size = fields.integer("moe_intermediate_size", 1408);
  experts.shared_intermediate_size = fields.integer("shared_expert_intermediate_size", 5632);
  experts.shared_gate = true;
  experts.renormalize = fields.boolean("norm_topk_prob", false);
  read_sparse_layers(fields, config);
}

void read_qwen3_moe(Fields& fields, ModelConfig& config) {
  read_common(fields, {151936, 2048, 6144, 24, 32, 4, 32768, 1e-6f, 10000.0f, -1, -1, -1, false}, config);
  no_windows(fields);
  ExpertsConfig& experts = config.experts;
  experts.count = num_experts(fields, 128);
  experts.per_token = fields.integer("num_experts_per_tok", 8);
  experts.intermediate_size = fields.integer("moe_intermediate_size", 768);
  experts.renormalize = fields.boolean("norm_topk_prob", false);
  read_sparse_layers(fields, config);
}

void read_mixtral(Fields& fields, ModelConfig& config) {
  read_common(fields, {32000, 4096, 14336, 32, 32, 8, 131072, 1e-5f, 1000000.0f, 1, 2, -1, false}, config);
  config.sliding_window = fields.integer("sliding_window", 0);
  ExpertsConfig& experts = config.experts;
  experts.count = num_experts(fields, 8);
  experts.per_token = fields.integer("num_experts_per_tok", 2);
  experts.intermediate_size = config.intermediate_size;
  experts.renormalize = true;
}

}  // namespace pagoda
