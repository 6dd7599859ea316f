#pragma once
// DecoderWeights: the weights of a generic decoder, packed for the kernels: all of them, or one rank's part
// (tensor_shard.h). The token embedding stays where the file has it: the ModelSource must outlive the
// weights.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "kernels/linear.h"
#include "loader/model_source.h"
#include "models/architecture.h"
#include "models/decoder_config.h"
#include "models/tensor_shard.h"

namespace pagoda {

struct NormWeights {
  std::vector<float> weight, bias;  // bias is empty for RMS norms
};

// A matrix cut by columns: y = sum over pieces and ranks. The bias is in the first piece of rank 0.
using RowParallelLinear = std::vector<PackedLinear>;

struct LayerWeights {
  NormWeights attention_norm, mlp_norm;
  std::vector<float> query_norm, key_norm;
  PackedLinear qkv;
  RowParallelLinear attention_output;
  PackedLinear mlp_in;  // gate and up, or up alone
  RowParallelLinear mlp_out;
};

struct DecoderWeights {
  TensorView token_embedding;     // the rows of the rank's part of the vocabulary
  TensorView position_embedding;  // learned positions only
  std::optional<PackedLinear> project_in, project_out;
  std::vector<LayerWeights> layers;
  NormWeights final_norm;
  PackedLinear head;
  std::vector<float> rope_factors;  // divisors of the rotation frequencies; empty: none

  std::int64_t packed_bytes = 0;             // memory taken by packed matrices
  std::vector<std::string> ignored_tensors;  // of the file, without meaning to this architecture
};

// `dtype` as choose_linear_type reads it. corrupt_data names the tensor that is missing or misshapen.
Result<DecoderWeights> load_decoder_weights(const KernelContext& context, const ModelSource& source,
                                            const WeightNames& names, const DecoderConfig& config,
                                            const TensorShard& shard, std::string_view dtype);

}  // namespace pagoda
