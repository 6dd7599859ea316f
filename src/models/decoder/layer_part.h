#pragma once
// The parts of a layer, each a class in a file of its own: a Mixer lets tokens see others of their sequence,
// a FeedForward works on each token alone. decoder.cc keeps the residual stream, the norms and the chunks of
// rows.
//   * A part takes its weights out of a WeightLoader, by the names of its architecture; LayerState
//     (decoder_config.h) says which state it keeps of a sequence.
//   * It enters and leaves chunk by chunk, and mixes over the whole batch. A row's result depends on its own
//     sequence alone. Calls are virtual once a layer and chunk, never inside a loop over rows.
// Threads: the decoder's one caller; the work runs on the context's pool. On several ranks all make the same
// calls.
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

// The place of one layer's K and V: in a cache of this layout, as layer `layer` of its blocks, through the
// block tables of these sequences (the batch's own in all else).
struct LayerKv {
  KvLayout layout;
  std::int32_t layer = 0;
  std::span<const AttentionSequence> sequences;
};

// Flat inputs: row r of the batch has token token_ids[r] at positions[r]; sequences say which rows are whose.
struct DecoderBatch {
  std::span<const std::int32_t> token_ids;
  std::span<const std::int32_t> positions;
  std::span<const AttentionSequence> sequences;
  std::span<const std::int32_t> output_rows;  // whose logits will be asked for; ascending, but for devices
  KvLayout layout;
  std::byte* cache = nullptr;
  std::span<const LayerKv> layers = {};  // by layer; empty: all of them lie in blocks of `layout`
  // The rotation of each row's sequence (DecoderConfig::rotation_of's numbers); empty: 0 for all.
  std::span<const std::int32_t> rotations = {};
  // By layer: the states of those that have one, in the order of LayerState::pieces; empty: none has.
  std::span<const LayerStates> states = {};
  std::span<const std::int32_t> token_types = {};  // by row; empty: all are 0
  // By row, null where it has none; empty: none has. They stay until the logits of this batch are made.
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

// Rows cut into chunks of nearly equal height, since a low one costs more a row.
struct Chunks {
  std::int64_t rows = 0, most = 1;  // most: of one chunk
  std::int64_t count() const { return (rows + most - 1) / most; }
  Rows operator[](std::int64_t index) const {
    const std::int64_t first = rows * index / count();
    return {first, rows * (index + 1) / count() - first};
  }
};

// Memory that the layers of a decoder share, one after the other. Each part lays its own rows into it
// (Buffer::with_stride); `projected` and `mixed` have room for the widest layer's.
struct Workspace {
  const KernelContext* context = nullptr;
  RankExchange* ranks = nullptr;
  std::span<RopeTable> ropes;
  std::int64_t chunk_rows = 0;
  // For mix(): project_out() of all rows is the next to read `mixed`.
  bool output_is_next = false;
  Buffer projected = {};  // [tokens, projected_width]: a mixer's input products of each row
  Buffer mixed = {};      // [tokens, mixed_width]
  Buffer inner = {};      // [chunk, inner_width]: of the sublayer that is computed
  Buffer seen = {};       // [chunk, seen_width]: what a feed-forward has kept of x before the mixer's sum
  RowAdapters adapters = nullptr;  // by row; null: none has one
  RowAdapters adapters_from(std::int64_t row) const { return adapters != nullptr ? adapters + row : nullptr; }
};

using Products = std::vector<PackedLinear*>;  // in the order in which they are multiplied

class Mixer {
 public:
  virtual ~Mixer() = default;
  virtual std::int64_t projected_width() const = 0;
  virtual std::int64_t mixed_width() const = 0;
  // Width of `inner`, used by project_in() and project_out().
  virtual std::int64_t inner_width() const { return 0; }
  // Columns of the widest row that it makes whole on every rank (RankExchange::whole_rows).
  virtual std::int64_t whole_width() const { return 0; }
  virtual Products input_products() = 0;
  virtual Products output_products() = 0;

  // Input products of these rows of `input`, whose first is the batch's row rows.first, into `projected`.
  virtual void project_in(const Workspace& workspace, const DecoderBatch& batch, Rows rows,
                          const LinearInput& input) = 0;
  // All of `projected` into `mixed`. Writes keys and values of every row, or the state
  // (batch.states_of(index of the layer)) before the first draft.
  virtual void mix(const Workspace& workspace, const DecoderBatch& batch) = 0;
  // Lists the states that mix() will read; a hint.
  virtual void list_ahead(const Workspace&, const DecoderBatch&, ReadAhead& out) const { out.pieces.clear(); }
  // y = (accumulate: y +) output product of these rows of `mixed`, which may have moved. Not ok: another rank
  // is lost.
  virtual Status project_out(const Workspace& workspace, Rows rows, bool accumulate, const Buffer& y) = 0;
};

class FeedForward {
 public:
  virtual ~FeedForward() = default;
  virtual std::int64_t inner_width() const = 0;
  virtual std::int64_t whole_width() const { return 0; }  // as a mixer's
  virtual Products input_products() = 0;
  virtual Products output_products() = 0;
  // Reads x, `count` rows of a chunk, as it is before the mixer's result is added to it, and keeps what it
  // needs of it in seen, seen_width() floats of each row.
  virtual std::int64_t seen_width() const { return 0; }
  virtual void look(const Workspace&, const LinearInput&, std::int64_t) {}
  // y = (accumulate: y +) f(input), of the same rows. Not ok: another rank is lost.
  virtual Status forward(const Workspace& workspace, const LinearInput& input, std::int64_t count,
                         bool accumulate, const Buffer& y) = 0;
};

// Input of make_part(), which makes the part that a config describes, with this rank's weights of layer
// `index`. Errors are the loader's status: check it before the part is used.
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

// Whether the file has no gate apart and its rows above those of `up`, as some converters write them.
bool gate_is_in_up(const DenseNames& names, std::int64_t inner, const LayerPlace& place);
// A dense feed-forward under these names, behind the layer's prefix, and with this part of its features.
std::unique_ptr<FeedForward> make_dense(const DenseFeedForwardConfig& config, const DenseNames& names,
                                        const FeatureShard& shard, const LayerPlace& place);

}  // namespace pagoda
