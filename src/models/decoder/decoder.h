#pragma once
// DecoderModel: a generic decoder-only transformer with its weights and activation buffers, or one rank's
// part of it (tensor_shard.h). Runs one batch of new tokens over a paged KV cache owned by the caller, and
// returns logits for the requested rows. Choosing those rows, sampling and the KV bytes are elsewhere.
// Invariant: each row's result depends on its own sequence alone, never on the batch or its chunking. With
// several ranks, all make the same calls with the same batch, and the residual stream is the same on each.
// Threads: one caller; the work runs on the context's pool.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "distributed/parallel_context.h"
#include "kernels/buffer.h"
#include "kernels/elementwise.h"
#include "kernels/placed.h"
#include "kernels/rows.h"
#include "loader/model_source.h"
#include "models/decoder/cached_weights.h"
#include "models/decoder/decoder_weights.h"
#include "models/decoder/layer_part.h"
#include "models/decoder/rank_exchange.h"
#include "models/decoder_config.h"
#include "models/model_info.h"
#include "models/rope_table.h"

namespace pagoda {

// Returns DecoderConfig::embedding_scale, rounded to the embedding's stored type if the config says so, as
// PyTorch does.
float embedding_scale(const DecoderConfig& config, DType stored);

// True if the embedding is also the head: a GGUF file without a head tensor, or a folder whose config.json
// says so, unless it stores a different matrix under the head's name (as transformers does).
bool head_is_tied(const ModelSource& source, const WeightNames& names, const DecoderConfig& config);

class DecoderModel {
 public:
  // unimplemented: the architecture or one of its options is not supported. corrupt_data: weights are missing
  // or misshapen. invalid_argument: the model cannot be cut into that many parts. Keeps no reference to
  // `source`. No batch may exceed max_batched_tokens. `caching`: the cache on disk; null: none. Without a
  // head there are hidden states, but no logits.
  static Result<std::unique_ptr<DecoderModel>> load(const KernelContext& context, const ModelSource& source,
                                                    std::string_view dtype, std::int32_t max_batched_tokens,
                                                    const ParallelContext& parallel = {},
                                                    const WeightCaching* caching = nullptr,
                                                    bool with_head = true);
  // The same for a source whose configuration has been read.
  static Result<std::unique_ptr<DecoderModel>> load(const KernelContext& context, const ModelSource& source,
                                                    const ModelInfo& model, std::string_view dtype,
                                                    std::int32_t max_batched_tokens,
                                                    const ParallelContext& parallel = {},
                                                    const WeightCaching* caching = nullptr,
                                                    bool with_head = true);

  // Returns the error that load() would give with `size` parts, from the file's headers alone.
  static Status check_split(const ModelSource& source, std::string_view dtype, std::int32_t size,
                            ExchangeKind exchange, MixtureCut mixtures = MixtureCut::experts);

  // Returns the error that load() would give for the files' tensors, from their names, types and shapes.
  // Packs nothing.
  static Status check_tensors(const ModelSource& source, bool with_head = true);

  // Frees the memory of weights and activations. Afterwards only the descriptive accessors may be used; to
  // run again, load a new model.
  void release();

  const DecoderConfig& config() const { return config_; }  // for the whole model
  const TensorShard& shard() const { return shard_; }
  const DecoderWeights& weights() const { return weights_; }
  std::int64_t activation_bytes() const { return memory_.size(); }

  // Computes the rotations of positions that no earlier batch had. forward() does so, too.
  void prepare(const DecoderBatch& batch);

  // Requires 1 <= token_ids.size() <= max_batched_tokens, ids below vocab_size, positions below
  // max_positions. An error means that another rank is lost.
  Status forward(const DecoderBatch& batch);

  // Writes the logits of output rows [first, first + count) of the last forward pass into out [count,
  // vocab_size] on rank 0; other ranks send their parts.
  Status logits(std::int64_t first, std::int64_t count, Buffer out);

  // Writes the head's input for output rows [first, first + count) of the last forward pass into out [count,
  // hidden_size]. Available on every rank.
  void hidden(std::int64_t first, std::int64_t count, const Buffer& out) const;

  // Writes the largest logit of each output row of the last forward pass, without storing the rows' logits.
  // Only on a single rank, and not if logits are capped, since large ones may then be equal.
  void largest_logits(std::span<LogitMax> largest);

 private:
  DecoderModel() = default;
  Chunks chunks(std::size_t rows) const { return {static_cast<std::int64_t>(rows), workspace_.chunk_rows}; }
  Status reserve_buffers();
  Status embed(const DecoderBatch& batch);
  void look_up_tokens(std::span<const std::int32_t> ids, const Buffer& out,
                      const EmbeddedIds& own = {}) const;
  Status embed_tokens(std::span<const std::int32_t> ids, const Buffer& out);
  void read_next_layer_ahead(const DecoderBatch& batch, std::size_t next);
  void gather_output_rows(std::span<const std::int32_t> rows, std::int64_t mixed_width);
  void finish_layer(std::size_t index, Rows rows);
  template <class Sublayer>
  Status add_sublayer(const LayerConfig& layer, const NormPlaces& places, const NormsAround& norms, Rows rows,
                      const Sublayer& sublayer);
  LinearInput head_input(std::int64_t first, std::int64_t count);
  Status gather_logits(const LinearInput& input, std::int64_t count, const Buffer& out);
  LinearInput normalized(const NormConfig& config, const PlacedNorm& norm, const Buffer& x) const;
  LinearInput input_of(const LayerConfig& layer, const NormPlaces& places, const NormsAround& norms,
                       Rows rows) const;
  void take_adapters(std::span<const AdapterFactors* const> of_rows);
  void normalize(const NormConfig& config, const PlacedNorm& norm, const Buffer& x, std::int64_t count,
                 const Buffer& out) const;
  RowShape hidden_rows(std::int64_t count) const { return {count, config_.hidden_size}; }

  KernelContext context_;
  ParallelContext parallel_;
  DecoderConfig config_;
  TensorShard shard_;
  DecoderWeights weights_;
  std::unique_ptr<WeightWriter> weight_writer_;  // reads the weights while it exists; null: no writing
  float embedding_scale_ = 1;
  std::vector<RopeTable> ropes_;
  RankExchange exchange_;
  Workspace workspace_;
  std::int32_t max_batched_tokens_ = 0;

  PlacedMemory memory_;  // holds workspace_'s buffers and those below
  Buffer residual_;      // [tokens, hidden]
  Buffer normed_;        // [chunk, hidden], or rows of the embedding
  Buffer branch_;        // [chunk, hidden]; for branches that are not added unchanged
  Buffer before_;        // [chunk, hidden]; input of the second of two parallel sublayers
  // For models with per-layer inputs: the first layer's input, and workspace for a chunk.
  Buffer embedded_, input_workspace_;  // [tokens, hidden]
  Buffer around_;                      // for learned residuals
  // Only where the model is split:
  Buffer own_logits_;                            // [chunk, own vocabulary]
  Buffer gathered_;                              // [rank, chunk, its vocabulary]; rank 0
  std::vector<const AdapterFactors*> adapters_;  // storage of workspace_.adapters
  std::vector<std::int32_t> types_;
  std::vector<std::int32_t> row_ids_;  // tokens of the rows of embedded_
  ReadAhead read_ahead_;               // memory that the next layer's mixer reads
};

}  // namespace pagoda
