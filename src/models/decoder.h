#pragma once
// DecoderModel: a generic decoder-only transformer with its weights and activation buffers, or one rank's
// part of it (tensor_shard.h). Runs one batch of new tokens over a paged KV cache that the caller owns; gives
// logits for the rows that were asked for. Not here: which rows those are, sampling, the KV bytes. Invariant:
// every row's result depends on its own sequence alone, never on the batch or its chunking. On several ranks
// all make the same calls with the same batch; the residual stream is the same on each. Threads: one caller;
// the work runs on the context's pool.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "distributed/parallel_context.h"
#include "kernels/paged_attention.h"
#include "loader/model_source.h"
#include "models/decoder_config.h"
#include "models/decoder_weights.h"
#include "models/rope_table.h"
#include "tensor/memory.h"

namespace pagoda {

// Flat inputs: row r of the batch has token token_ids[r] at positions[r]; sequences say which rows are whose.
struct DecoderBatch {
  std::span<const std::int32_t> token_ids;
  std::span<const std::int32_t> positions;
  std::span<const AttentionSequence> sequences;
  std::span<const std::int32_t> output_rows;  // ascending; the rows whose logits will be asked for
  KvLayout layout;
  std::byte* cache = nullptr;
};

class DecoderModel {
 public:
  // unimplemented: the architecture or one of its options is not supported. corrupt_data: weights are missing
  // or misshapen. invalid_argument: it cannot be cut into so many parts. `source` must outlive the decoder.
  // max_batched_tokens bounds every batch.
  static Result<std::unique_ptr<DecoderModel>> load(const KernelContext& context, const ModelSource& source,
                                                    std::string_view dtype, std::int32_t max_batched_tokens,
                                                    const ParallelContext& parallel = {});

  // What load() would say against so many parts, from the file's descriptions alone.
  static Status check_split(const ModelSource& source, std::string_view dtype, std::int32_t size,
                            SumOrder order);

  const DecoderConfig& config() const { return config_; }  // of the whole model
  const TensorShard& shard() const { return shard_; }
  const DecoderWeights& weights() const { return weights_; }
  std::int64_t activation_bytes() const { return static_cast<std::int64_t>(memory_.size()); }

  // Needs 1 <= token_ids.size() <= max_batched_tokens, ids below vocab_size, positions below max_positions.
  // Not ok: another rank is lost.
  Status forward(const DecoderBatch& batch);

  // Logits of output rows [first, first + count) of the last forward into out [count, vocab_size], on rank 0;
  // the others send their parts.
  Status logits(std::int64_t first, std::int64_t count, float* out);

  // The largest logit of each output row of the last forward, without their logits. On a single rank only.
  void largest_logits(std::span<LogitMax> largest);

 private:
  DecoderModel() = default;
  struct Rows {
    std::int64_t first = 0, count = 0;
  };
  std::int64_t num_chunks(std::int64_t rows) const { return (rows + chunk_rows_ - 1) / chunk_rows_; }
  Rows chunk(std::int64_t rows, std::int64_t index) const;
  Status embed(const DecoderBatch& batch);
  Status embed_tokens(std::span<const std::int32_t> ids, float* out);
  void query_key_value(const DecoderBatch& batch, const LayerWeights& layer, Rows rows);
  PagedAttentionArgs attention_of(const DecoderBatch& batch, std::int32_t layer) const;
  void read_next_layer_ahead(const DecoderBatch& batch, std::int32_t next);
  void gather_output_rows(std::span<const std::int32_t> rows);
  Status mlp(const LayerWeights& layer, Rows rows);
  Status attention_output(const LayerWeights& layer, Rows rows);
  Status add_row_parallel(const RowParallelLinear& weight, std::span<const std::int32_t> parts,
                          LinearInput input, std::int64_t count, float* y);
  Status sum_over_ranks(std::span<float> data, std::int64_t length, std::span<const std::int32_t> parts);
  LinearInput head_input(std::int64_t first, std::int64_t count);
  Status gather_logits(const LinearInput& input, std::int64_t count, float* out);
  LinearInput normalized(const NormWeights& norm, const float* x) const;
  LinearInput layer_input(const NormWeights& norm, const float* x) const;
  void normalize_in_place(const NormWeights& norm, float* x, std::int64_t count);
  void normalize_heads(const LayerWeights& layer, float* qkv, std::int64_t count);

  KernelContext context_;
  ParallelContext parallel_;
  DecoderConfig config_, local_;  // local_: with this rank's numbers of heads and of intermediate features
  TensorShard shard_;
  std::vector<std::int32_t> one_each_;  // parts of sums to which each rank brings one vector
  DecoderWeights weights_;
  std::optional<RopeTable> rope_;
  std::int32_t max_batched_tokens_ = 0;
  std::int64_t chunk_rows_ = 0;  // rows in the buffers of a chunk below

  Memory memory_;              // all of the buffers below
  float* residual_ = nullptr;  // [tokens, hidden]
  float* qkv_ = nullptr;       // [tokens, qkv]
  float* attended_ = nullptr;  // [tokens, query]
  float* normed_ = nullptr;    // [chunk, max(hidden, embedding)]
  float* inner_ = nullptr;     // [chunk, intermediate]
  // Only where the model is split:
  float* partial_ = nullptr;     // [pieces, chunk, hidden]: what row-parallel layers bring to the sum
  float* own_logits_ = nullptr;  // [chunk, own vocabulary]
  float* gathered_ = nullptr;    // [rank, chunk, its vocabulary]; rank 0
  std::vector<std::int32_t> shifted_positions_, own_ids_;
  ReadAhead read_ahead_;  // K and V of the next layer
};

// The DecoderConfig of a model, checked for sense: what can be known before any weight is read.
Result<DecoderConfig> describe_decoder(const ModelConfig& config);

}  // namespace pagoda
