#pragma once
// DecoderWeights: the weights of a generic decoder, packed for the kernels: the whole model's, or one rank's
// part (tensor_shard.h). The parts of layers hold their own weights. Embeddings keep their stored form,
// except an embedding that is also the head and whose panels hold the exact values. All weights are in memory
// or mapped from a packed file (weight_store.h), so the ModelSource may be released.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "kernels/linear.h"
#include "loader/model_source.h"
#include "models/decoder/layer_inputs.h"
#include "models/decoder/layer_part.h"
#include "models/decoder/learned_residual.h"
#include "models/decoder/residual_streams.h"
#include "models/decoder_config.h"
#include "models/weight_names.h"
#include "models/weights/adapter_targets.h"
#include "models/weights/tensor_shard.h"
#include "models/weights/weight_store.h"

namespace pagoda {

// The norms around a sublayer; an empty norm is absent.
struct NormsAround {
  PlacedNorm input, branch, sum;
};

struct DecoderLayer {
  std::unique_ptr<Mixer> mixer;
  std::unique_ptr<FeedForward> feed_forward;
  NormsAround mixer_norms, feed_forward_norms;
  std::optional<LearnedResidual> learned_residual;
  float output_scale = 1;
  // Multiplications per row in the input and output products of the mixer and of the feed-forward.
  std::int64_t mixer_in = 0, mixer_out = 0, feed_forward_in = 0, feed_forward_out = 0;
};

struct DecoderWeights {
  TensorView token_embedding;     // this rank's part of the vocabulary; no data: the head's rows are used
  TensorView position_embedding;  // only for learned positions
  TensorView type_embedding;      // embedding of token types; otherwise empty
  std::optional<PackedLinear> project_in, project_out;
  std::vector<DecoderLayer> layers;
  PlacedNorm embedding_norm, final_norm;
  std::optional<LayerInputs> layer_inputs;
  std::optional<ResidualStreams> streams;
  PackedLinear head;
  // Divisors of the rotation frequencies: for all sequences or for short ones; and for long ones. Empty:
  // none.
  std::vector<float> rope_factors, rope_factors_long;

  std::vector<std::shared_ptr<const void>> owners;  // owners of the embeddings' bytes
  bool mapped = false;                              // everything is mapped from a packed file
  std::int64_t packed_bytes = 0;                    // bytes of packed matrices
  std::int64_t embedding_bytes() const { return token_embedding.data ? token_embedding.bytes() : 0; }
  std::vector<WeightPiece> pieces;  // everything that was packed into memory, for writing a packed file
  AdapterTargets adapter_targets;
  std::vector<std::string> ignored_tensors;  // tensors of the file that this architecture does not use
};

// The tensors to load and how to store them. Must outlive the load.
struct WeightOrder {
  const KernelContext& context;
  const ModelSource& source;
  const WeightNames& names;
  const DecoderConfig& config;
  const TensorShard& shard;
  std::string_view dtype;  // as choose_linear_type reads it
};
// corrupt_data: a tensor is missing or misshapen; the message names it.
Result<DecoderWeights> load_decoder_weights(const WeightOrder& order, WeightStore store = {});

}  // namespace pagoda
