#pragma once
// The parts of a layer, each a class in its own file: a Mixer lets tokens see other tokens of their sequence,
// a FeedForward works on each token alone. decoder.cc handles the residual stream, norms and chunks of rows.
//   * A part takes its weights from a WeightLoader, by its architecture's names; LayerState
//     (decoder_config.h) describes the state that it keeps per sequence.
//   * Projections run chunk by chunk, mixing over the whole batch. A row's result depends on its own sequence
//     alone. Virtual calls happen once per layer and chunk, never inside a loop over rows.
// Threads: the decoder's one caller; the work runs on the context's pool. With several ranks, all make the
// same calls.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "kernels/buffer.h"
#include "kernels/linear.h"
#include "kernels/paged_attention.h"
#include "kernels/read_ahead.h"
#include "kernels/sequence_state.h"
#include "models/decoder/rank_exchange.h"
#include "models/decoder_config.h"
#include "models/rope_table.h"
#include "models/weights/tensor_shard.h"
#include "models/weights/weight_loader.h"

namespace pagoda {

// The location of one layer's K and V: layer `layer` of the blocks of a cache with this layout, through these
// sequences' block tables (otherwise equal to the batch's sequences).
struct LayerKv {
  KvLayout layout;
  std::int32_t layer = 0;
  std::span<const AttentionSequence> sequences;
};

// Flat inputs: row r of the batch has token token_ids[r] at positions[r]; `sequences` assigns rows to
// sequences.
struct DecoderBatch {
  std::span<const std::int32_t> token_ids;
  std::span<const std::int32_t> positions;
  std::span<const AttentionSequence> sequences;
  std::span<const std::int32_t> output_rows;  // rows whose logits are needed; ascending, except on devices
  KvLayout layout;
  std::byte* cache = nullptr;
  std::span<const LayerKv> layers = {};  // by layer; empty: all layers lie in blocks of `layout`
  // The rotation of each row's sequence, numbered as in RotationRule; empty: 0 for all.
  std::span<const std::int32_t> rotations = {};
  // By layer: the states of layers that have them, in the order of LayerState::pieces; empty: no layer has.
  std::span<const LayerStates> states = {};
  std::span<const std::int32_t> token_types = {};  // by row; empty: 0 for all
  // By row, null for a row without an adapter; empty: no adapters. Must stay valid until the logits of this
  // batch are computed.
  std::span<const AdapterFactors* const> adapters = {};

  LayerKv kv_of(std::int32_t layer) const {
    return layers.empty() ? LayerKv{.layout = layout, .layer = layer, .sequences = sequences}
                          : layers[static_cast<std::size_t>(layer)];
  }
  const LayerStates& states_of(std::int32_t layer) const { return states[static_cast<std::size_t>(layer)]; }
};

struct Rows {
  std::int64_t first = 0, count = 0;
};

// Rows cut into chunks of nearly equal height, since low chunks cost more per row.
struct Chunks {
  std::int64_t rows = 0, most = 1;  // most: rows per chunk
  std::int64_t count() const { return (rows + most - 1) / most; }
  Rows operator[](std::int64_t index) const {
    const std::int64_t first = rows * index / count();
    return {first, rows * (index + 1) / count() - first};
  }
};

// Memory that the layers of a decoder use one after the other. Each part lays its own rows into it
// (Buffer::with_stride); `projected` and `mixed` fit the widest layer.
struct Workspace {
  const KernelContext* context = nullptr;
  RankExchange* ranks = nullptr;
  std::span<RopeTable> ropes;
  std::int64_t chunk_rows = 0;
  // For mix(): the next reader of `mixed` is project_out() of all rows.
  bool output_is_next = false;
  Buffer projected = {};           // [tokens, projected_width]: a mixer's input products of each row
  Buffer mixed = {};               // [tokens, mixed_width]
  Buffer inner = {};               // [chunk, inner_width]: of the current sublayer
  Buffer seen = {};                // [chunk, seen_width]: what FeedForward::look() stored
  RowAdapters adapters = nullptr;  // by row; null: no adapters
  RowAdapters adapters_from(std::int64_t row) const { return adapters != nullptr ? adapters + row : nullptr; }
};

using Products = std::vector<PackedLinear*>;  // in the order of multiplication

class Mixer {
 public:
  virtual ~Mixer() = default;
  virtual std::int64_t projected_width() const = 0;
  virtual std::int64_t mixed_width() const = 0;
  // Width of `inner`, used by project_in() and project_out().
  virtual std::int64_t inner_width() const { return 0; }
  // Columns of the widest row that must be whole on every rank (RankExchange::whole_rows).
  virtual std::int64_t whole_width() const { return 0; }
  virtual Products input_products() = 0;
  virtual Products output_products() = 0;

  // Writes the input products of these rows into `projected`. `input` begins at the batch's row rows.first.
  virtual void project_in(const Workspace& workspace, const DecoderBatch& batch, Rows rows,
                          const LinearInput& input) = 0;
  // Computes `mixed` from all of `projected`. Writes keys and values of every row, or the state
  // (batch.states_of(index of the layer)) before the first draft.
  virtual void mix(const Workspace& workspace, const DecoderBatch& batch) = 0;
  // Lists the states that mix() will read; a hint for prefetching.
  virtual void list_ahead(const Workspace&, const DecoderBatch&, ReadAhead& out) const { out.pieces.clear(); }
  // y = (accumulate: y +) output product of these rows of `mixed`, which may have been compacted. An error
  // means that another rank is lost.
  virtual Status project_out(const Workspace& workspace, Rows rows, bool accumulate, const Buffer& y) = 0;
};

class FeedForward {
 public:
  virtual ~FeedForward() = default;
  virtual std::int64_t inner_width() const = 0;
  virtual std::int64_t whole_width() const { return 0; }  // as in Mixer
  virtual Products input_products() = 0;
  virtual Products output_products() = 0;
  // Reads `count` rows of a chunk of x before the mixer's result is added, and stores what the part needs in
  // `seen`, seen_width() floats per row.
  virtual std::int64_t seen_width() const { return 0; }
  virtual void look(const Workspace&, const LinearInput&, std::int64_t) {}
  // y = (accumulate: y +) f(input), for the same rows. An error means that another rank is lost.
  virtual Status forward(const Workspace& workspace, const LinearInput& input, std::int64_t count,
                         bool accumulate, const Buffer& y) = 0;
};

// Input of make_part(), which makes the part that a config describes, with this rank's weights of layer
// `index`. The loader keeps errors: check its status before using the part.
struct LayerPlace {
  WeightLoader& loader;
  const DecoderConfig& decoder;
  const NormConfig& norm;
  const LayerShard& shard;
  std::int64_t hidden_size = 0;
  std::int32_t index = 0;
  std::string prefix;  // prefix of its tensors' names
};
std::unique_ptr<Mixer> make_part(const AttentionConfig& config, const LayerPlace& place);
std::unique_ptr<Mixer> make_part(const LatentAttentionConfig& config, const LayerPlace& place);
std::unique_ptr<Mixer> make_part(const ShortConvConfig& config, const LayerPlace& place);
std::unique_ptr<Mixer> make_part(const LinearAttentionConfig& config, const LayerPlace& place);
std::unique_ptr<Mixer> make_part(const SelectiveScanConfig& config, const LayerPlace& place);
std::unique_ptr<Mixer> make_part(const ParallelMixersConfig& config, const LayerPlace& place);
std::unique_ptr<Mixer> make_part(const NoMixerConfig& config, const LayerPlace& place);
std::unique_ptr<FeedForward> make_part(const NoFeedForwardConfig& config, const LayerPlace& place);
std::unique_ptr<FeedForward> make_part(const DenseFeedForwardConfig& config, const LayerPlace& place);
std::unique_ptr<FeedForward> make_part(const MixtureConfig& config, const LayerPlace& place);
std::unique_ptr<FeedForward> make_part(const MixtureBesideDenseConfig& config, const LayerPlace& place);
std::unique_ptr<FeedForward> make_part(const SparseFeedForwardConfig& config, const LayerPlace& place);
std::unique_ptr<FeedForward> make_part(const XieluConfig& config, const LayerPlace& place);

// True if the file has no separate gate and stores its rows above those of `up`, as some converters do.
bool gate_is_in_up(const DenseNames& names, std::int64_t inner, const LayerPlace& place);
// Makes a dense feed-forward with these names after the layer's prefix, and with this part of its features.
std::unique_ptr<FeedForward> make_dense(const DenseFeedForwardConfig& config, const DenseNames& names,
                                        const FeatureShard& shard, const LayerPlace& place);

}  // namespace pagoda
