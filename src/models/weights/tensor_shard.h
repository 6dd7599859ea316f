#pragma once
// TensorShard: the part of each weight matrix that one rank of a tensor-parallel group has (Megatron-LM's
// split, arXiv 1909.08053 §3). ExchangeKind chooses rows or columns; rank_exchange.h exchanges the results.
//   * query, key, value, latent attention: rows of whole heads; gate and up: rows; experts: whole ones on the
//     CPU, on devices each by rows, so that sizes do not depend on who chose which (MixtureCut); embedding
//     and head: rows (tokens). Attention output and down: rows, or columns of those heads and rows.
//   * Layers with states: whole heads with their states, or channels, and rows of these; every rank has as
//     many, so that all plan the same pages. Key heads are on each rank whose heads read them.
//   * routers, norms, positions and projections are on every rank.
//   * Parts are contiguous and nearly equal. Fewer key-value heads than ranks are on several ranks, each with
//     some of their query heads. Columns of quantised matrices are cut between blocks.
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
  gather,  // matrices that end a sublayer are cut by rows: the bits of one process
  sum,     // by columns: products are summed over the ranks
};

enum class MixtureCut : std::uint8_t { experts, features };

// A rank's part of the heads of one layer.
struct HeadShard {
  Range query, kv;
  std::vector<Range> ranks = {}, kv_ranks = {};  // query and key-value heads of each rank
};

// The same of a layer's heads that keep states, or channels; and the key heads that they read, in the order
// in which they do.
struct StateShard {
  Range own;
  std::vector<Range> keys = {};
  std::vector<Range> ranks = {};
};

struct MixerShard {
  HeadShard heads = {};
  StateShard states = {};
};

// The same of the features between a feed-forward's matrices.
struct FeatureShard {
  Range own;
  std::vector<Range> ranks;
};

// The experts of a mixture are cut as features are, or the features of all of them; `inner` is then its
// shared expert's.
struct FeedForwardShard {
  FeatureShard inner, experts, of_expert;
};

struct LayerShard {
  HeadShard heads;
  StateShard states;
  FeatureShard inner, experts, of_expert;
  Range hidden;  // rows of the matrices that end its sublayers, where those are cut by rows
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

// Columns that have to stay together where matrices are cut by columns: a block of the file's quantisation
// where the packed form keeps it, else 1.
struct ColumnBlocks {
  std::int64_t attention_output = 1, down = 1;
};
ColumnBlocks column_blocks(const ModelSource& source, const WeightNames& names, const DecoderConfig& config,
                           std::string_view dtype);

// invalid_argument: the model cannot be cut into so many parts; says what stands against it.
Result<TensorShard> plan_shard(const DecoderConfig& config, const ColumnBlocks& blocks, std::int32_t rank,
                               std::int32_t size, ExchangeKind exchange,
                               MixtureCut mixtures = MixtureCut::experts);

// A layer's config with this rank's heads.
LinearAttentionConfig part_of(const LinearAttentionConfig& config, const StateShard& shard);

// This rank keeps so much of a sequence, layer by layer.
std::vector<LayerState> layer_states(const DecoderConfig& config, const TensorShard& shard);

// These columns of `rows`, each of `width` numbers; of none none.
std::vector<float> columns_of(const std::vector<float>& rows, std::int64_t width,
                              std::span<const Range> columns);

// Columns of a matrix whose rows are heads of `size`, by rank.
std::vector<Range> features_of(std::span<const Range> heads, std::int64_t size);

}  // namespace pagoda
