#pragma once
// TensorShard: the part of each weight matrix held by one rank of a tensor-parallel group (Megatron-LM's
// split, arXiv 1909.08053 §3). ExchangeKind chooses rows or columns; rank_exchange.h exchanges the results.
//   * query, key, value, latent attention: rows of whole heads; gate and up: rows; experts: whole on the CPU,
//     but rows of each on devices, so that sizes do not depend on routing (MixtureCut); embedding and head:
//     rows (tokens). Attention output and down: rows, or columns of those heads and rows.
//   * Layers with states: whole heads with their states, or channels, and their rows; equally many on every
//     rank, so that all plan the same pages. Key heads are on each rank whose heads read them.
//   * routers, norms, positions and projections are on every rank.
//   * Parts are contiguous and nearly equal. If there are fewer key-value heads than ranks, ranks share them
//     with some query heads each. Columns of quantised matrices are cut between blocks.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "loader/model_source.h"
#include "models/decoder_config.h"
#include "models/weight_names.h"

namespace pagoda {

struct Range {
  std::int64_t first = 0, count = 0;
  std::int64_t end() const { return first + count; }
  bool operator==(const Range&) const = default;
};

enum class ExchangeKind : std::uint8_t {
  gather,  // the last matrix of a sublayer is cut by rows: the same bits as one process
  sum,     // cut by columns: products are summed over the ranks
};

enum class MixtureCut : std::uint8_t { experts, features };

// A rank's part of a layer's heads.
struct HeadShard {
  Range query, kv;
  std::vector<Range> ranks = {}, kv_ranks = {};  // each rank's query and key-value heads
};

// The same for heads (or channels) with states, and the key heads that they read, in reading order.
struct StateShard {
  Range own;
  std::vector<Range> keys = {};
  std::vector<Range> ranks = {};
};

struct MixerShard {
  HeadShard heads = {};
  StateShard states = {};
};

// The same for the features between a feed-forward's matrices.
struct FeatureShard {
  Range own;
  std::vector<Range> ranks;
};

// A mixture's experts are cut like features, or the features of each expert are; `inner` is then the shared
// expert's.
struct FeedForwardShard {
  FeatureShard inner, experts, of_expert;
};

struct LayerShard {
  HeadShard heads;
  StateShard states;
  FeatureShard inner, experts, of_expert;
  Range hidden;                     // rows of the last matrices of its sublayers, if cut by rows
  std::vector<Range> hidden_ranks;  // by rank
  ExchangeKind exchange = ExchangeKind::gather;
};

struct TensorShard {
  std::int32_t rank = 0, size = 1;
  std::vector<LayerShard> layers;
  std::vector<Range> vocab;   // by rank
  std::vector<Range> hidden;  // by rank: LayerShard::hidden
  ExchangeKind exchange = ExchangeKind::gather;

  const Range& own_vocab() const { return vocab[static_cast<std::size_t>(rank)]; }
};

// Number of columns that must stay together if matrices are cut by columns: a block of the file's
// quantisation, if the packed form keeps it; otherwise 1.
struct ColumnBlocks {
  std::int64_t attention_output = 1, down = 1;
};
ColumnBlocks column_blocks(const ModelSource& source, const WeightNames& names, const DecoderConfig& config,
                           std::string_view dtype);

// invalid_argument: the model cannot be cut into that many parts; the message says why.
Result<TensorShard> plan_shard(const DecoderConfig& config, const ColumnBlocks& blocks, std::int32_t rank,
                               std::int32_t size, ExchangeKind exchange,
                               MixtureCut mixtures = MixtureCut::experts);

// Returns a layer's config with this rank's heads.
LinearAttentionConfig part_of(const LinearAttentionConfig& config, const StateShard& shard);

// Returns what this rank keeps per sequence, by layer.
std::vector<LayerState> layer_states(const DecoderConfig& config, const TensorShard& shard);

// Returns these columns of `rows`, which have `width` numbers each; empty if `rows` is.
std::vector<float> columns_of(const std::vector<float>& rows, std::int64_t width,
                              std::span<const Range> columns);

// Returns each rank's columns of a matrix whose rows consist of heads of `size` elements.
std::vector<Range> features_of(std::span<const Range> heads, std::int64_t size);

}  // namespace pagoda
