#pragma once
// TensorShard: which part of each weight matrix one rank of a tensor-parallel group has (Megatron-LM's
// split):
//
//     query, key, value      rows of whole heads      (column-parallel: the rank's own heads)
//     latent attention       rows of whole heads; what is kept of a token is on every rank
//     attention output       columns of those heads   (row-parallel: summed over the ranks)
//     gate, up               rows                     (column-parallel)
//     down                   columns of those rows    (row-parallel: summed over the ranks)
//     experts                whole ones               (their sums are summed over the ranks)
//     routers                on every rank
//     embedding, head        rows: tokens             (embeddings summed, logits gathered)
//     norms, positions, projections in and out        on every rank
//
// Parts are contiguous and nearly equal; they need not be equal. Key-value heads fewer than ranks are on
// several ranks, each with some of their query heads. Columns of quantised matrices are cut between blocks.
// Source: Megatron-LM (arXiv 1909.08053) §3.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "loader/model_source.h"
#include "models/architecture.h"
#include "models/decoder_config.h"

namespace pagoda {

struct Range {
  std::int64_t first = 0, count = 0;
  std::int64_t end() const { return first + count; }
  bool operator==(const Range&) const = default;
};

// What a rank has of the heads of one layer. The output matrix's columns are summed as pieces, each by
// itself; one piece unless deterministic.
struct HeadShard {
  Range query, kv;
  std::vector<Range> pieces;        // of this rank, inside `query`
  std::vector<std::int32_t> parts;  // number of pieces of each rank
};

// The same of the features between a feed-forward's matrices.
struct FeatureShard {
  Range own;
  std::vector<Range> pieces;
  std::vector<std::int32_t> parts;
};

// The experts of a mixture are cut as features are; `inner` is then its shared expert's.
struct FeedForwardShard {
  FeatureShard inner, experts;
  std::size_t most_pieces() const { return std::max(inner.pieces.size(), experts.pieces.size()); }
};

struct LayerShard {
  HeadShard heads;
  FeatureShard inner, experts;
};

struct TensorShard {
  std::int32_t rank = 0, size = 1;
  std::vector<LayerShard> layers;
  std::vector<Range> vocab;     // of each rank
  std::size_t most_pieces = 1;  // of one matrix

  const Range& own_vocab() const { return vocab[static_cast<std::size_t>(rank)]; }
  bool split() const { return size > 1 || most_pieces > 1; }
};

// Columns that have to stay together in the row-parallel matrices: a block of the file's quantisation where
// the packed form keeps it, else 1.
struct ColumnBlocks {
  std::int64_t attention_output = 1, down = 1;
};
ColumnBlocks column_blocks(const ModelSource& source, const WeightNames& names, const DecoderConfig& config,
                           std::string_view dtype);

enum class SumOrder { any, fixed };  // fixed: pieces that are the same for 1, 2 and 4 ranks

// invalid_argument: the model cannot be cut into so many parts; says what stands against it.
Result<TensorShard> plan_shard(const DecoderConfig& config, const ColumnBlocks& blocks, std::int32_t rank,
                               std::int32_t size, SumOrder order);

}  // namespace pagoda
