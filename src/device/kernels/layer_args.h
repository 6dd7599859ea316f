#pragma once
// Arguments of the plain kernels that implement a layer's ops (layer_*.cuh, layer_launches.h); kernel_args.h
// has those of the other kernels. They accept rows with any stride, and heads, windows and states of any
// form: anything without a fast kernel runs on these.
#include <cstdint>

#include "device/kernels/kernel_args.h"

namespace pagoda::device {

// Rows of floats, with `stride` elements from one row to the next.
struct StridedRows {
  float* data = nullptr;
  std::int64_t stride = 0;
};

// The new value of y[r, i], with v = vector[i], f = factor, a = a[r, i], b = b[r, i]:
enum class RowOp : std::int32_t {
  zero,            // 0
  copy,            // a
  scale,           // f y
  clip,            // y, clipped to [-f, f]
  cap,             // f tanh(y / f)
  squash,          // tanh(y / f)
  add,             // y + f a
  add_sum,         // y + (a + b)
  join,            // (y + a) f
  add_vector,      // y + v
  times_vector,    // a v
  add_share,       // y + f sigmoid(b[r, 0]) a; without b: y + f a
  times_sum,       // y (a + second b) f
  times_softplus,  // y softplus(a[r, i / each])
  times_sigmoid,   // y sigmoid(a[r, i / each])
  xielu,           // XieluCurve (kernels/rows.h)
  by_position,     // y (1 + beta ln(1 + floor((positions[r] + offset) / period)))
};
struct RowOpArgs {
  RowOp op = RowOp::zero;
  StridedRows y = {}, a = {}, b = {};
  const float* vector = nullptr;
  const std::int32_t* positions = nullptr;
  std::int32_t width = 0, each = 1;
  float factor = 1, second = 0;
  float beta = 0, eps = 0, positive = 0, negative = 0;
  std::int32_t offset = 0, period = 1;
};

// Norms of groups of a row: out = (x - mean) / deviation * weight + bias. unit: x / sqrt(sum of squares +
// eps). gate: multiplies by silu(gate), before or after the norm.
enum class GroupNorm : std::int32_t { none, rms, layer, unit };
struct NormGroupsArgs {
  GroupNorm kind = GroupNorm::rms;
  StridedRows x = {}, out = {};    // may be the same
  StridedRows gate = {};           // optional
  const float* weight = nullptr;   // or null: 1
  const float* bias = nullptr;     // or null
  std::int32_t size = 0;           // elements of a group; grid.y groups follow each other
  std::int32_t weight_stride = 0;  // from a group's weights to the next group's; 0: all groups share them
  std::int32_t gate_first = 0;
  float eps = 0, scale = 1;
};

// Rotation (halves) of the first rotary_size elements of heads, in place.
struct TurnHeadsArgs {
  StridedRows x = {};
  const std::int32_t* turns = nullptr;  // [rows]: rows of cos_sin
  StridedRows cos_sin = {};             // cosines, then sines
  std::int32_t head_size = 0, rotary_size = 0;
};

// out[r] = cosines, then sines, of positions[r] * frequencies, times amplitude
struct FillRotationsArgs {
  const std::int32_t* positions = nullptr;
  const double* frequencies = nullptr;  // [pairs]
  double amplitude = 1;
  StridedRows out = {};
  std::int32_t pairs = 0;
};

// A row of `up` becomes gelu(gate - cutoff) * up where the gate exceeds the cutoff, otherwise 0; the cutoff
// is `deviations` standard deviations above the mean of the row's gates.
struct SparseGateArgs {
  StridedRows gates = {}, up = {};
  std::int32_t width = 0;
  float deviations = 0;
};

// to = from, scaled to the root mean square of `like`. added: to = (to + this) / divisor.
struct MatchMagnitudeArgs {
  StridedRows from = {}, like = {}, to = {};
  std::int32_t width = 0, added = 0;
  float divisor = 1;
};

// kernels/residual_streams.h; at most kMostStreams of them.
inline constexpr std::int32_t kMostStreams = 8;
struct StreamsArgs {
  const float* factors = nullptr;
  StridedRows modes = {}, x = {}, others = {}, predicted = {};
  std::int32_t width = 0, streams = 0;
};

// RecurrentGates (kernels/rows.h).
struct RecurrentGatesArgs {
  StridedRows weight = {}, decay = {};
  const float *rate = nullptr, *bias = nullptr;
  std::int32_t num_heads = 0, delta_rule = 0;
  float least_step = 0, most_step = 0;
};

// The rotated parts of latent attention's rows (kernels/latent_input.h). grid.y: the query heads, then the
// row that is kept in the cache.
struct LatentRowsArgs {
  StridedRows queries = {}, kept = {}, out = {};
  std::int32_t num_heads = 0, query_size = 0, nope_size = 0, latent_size = 0, rope_size = 0;
};

// The rows of one sequence in a batch, and its blocks, beginning with its first token.
struct SequenceRows {
  std::int32_t first_row = 0, num_rows = 0;
  std::int32_t context = 0;  // number of tokens that its last row attends to
  const std::int32_t* table = nullptr;
};

// Location of a layer in a paged cache, in bytes: for each KV head, block_size slots of keys and, at
// value_offset, of values. In 8 bits a slot is padded to a multiple of 4, and the scales follow a head's
// slots.
struct KvPlaces {
  std::byte* cache = nullptr;  // the layer in block 0
  std::int64_t block_bytes = 0, head_bytes = 0;
  std::int64_t value_offset = 0;  // 0: a value is the first elements of its key
  std::int32_t block_size = 0, head_size = 0;
  float key_scale = 1, value_scale = 1;  // as in CacheArgs
};

// Writes the keys and values of rows into their slots. grid: (rows, KV heads).
struct WriteKvArgs {
  KvPlaces kv = {};
  StridedRows key = {}, value = {};
  const SequenceRows* sequences = nullptr;
  const std::int32_t* row_sequences = nullptr;  // [rows]; -1: padding
};

// Attention of rows. grid: (rows, query heads).
inline constexpr std::int32_t kMostValueSize = 512;
struct AttendArgs {
  KvPlaces kv = {};
  StridedRows query = {}, out = {};
  const SequenceRows* sequences = nullptr;
  const std::int32_t* row_sequences = nullptr;
  const float *sinks = nullptr, *slopes = nullptr;  // [query heads], or null
  std::int32_t num_query_heads = 0, num_kv_heads = 0, value_size = 0;
  std::int32_t window = 0, chunks = 0;  // as in AttentionArgs
  std::int32_t both_ways = 0;           // also sees as many tokens after it as before it
  float scale = 1, softcap = 0;
};

// States of sequences (kernels/sequence_state.h). pieces: addresses, for one sequence and store after the
// other.
struct StateRows {  // without rows it is padding and changes nothing
  std::int32_t first_row = 0, num_rows = 0, num_drafts = 0, fresh = 0;
  std::int32_t first_store = 0, num_stores = 0;  // in StatesArgs::stores
  std::int32_t first_piece = 0, unused = 0;
};
struct StoreRows {
  std::int32_t num_rows = 0, first_piece = 0;
};
struct StatesArgs {
  const StateRows* sequences = nullptr;
  const StoreRows* stores = nullptr;
  float* const* pieces = nullptr;
};

// kernels/causal_conv.h. grid: (sequences, blocks of channels).
inline constexpr std::int32_t kMostTaps = 8;
struct CausalConvRows {
  StatesArgs states = {};
  const float *weight = nullptr, *bias = nullptr;
  StridedRows input = {}, gate = {}, output_gate = {}, output = {};
  std::int32_t num_channels = 0, num_taps = 0, silu = 0;
};

// kernels/linear_attention.h. grid: (sequences, heads, tiles of kStateTile columns). Shared: a tile.
inline constexpr std::int32_t kStateTile = 32;
struct LinearAttentionRows {
  StatesArgs states = {};
  StridedRows query = {}, key = {}, value = {}, decay = {}, weight = {}, output = {};
  const float* skip = nullptr;
  std::int32_t num_heads = 0, num_key_heads = 0, tiled_heads = 0;
  std::int32_t key_size = 0, value_size = 0, delta_rule = 0;
};

// kernels/selective_scan.h. grid: (sequences, blocks of kScanThreads channels). Shared: their states.
inline constexpr std::int32_t kScanTile = 16, kScanChannels = 256, kScanThreads = 64;
struct SelectiveScanRows {
  StatesArgs states = {};
  StridedRows step = {}, value = {}, key = {}, query = {}, output = {};
  const float *rate = nullptr, *skip = nullptr;
  std::int32_t num_channels = 0, state_size = 0;
};

// RouterScore::sparse_mixer (kernels/routing_rule.h). Shared: two floats an expert.
struct RouteSparselyArgs {
  const float* logits = nullptr;
  std::int32_t* chosen = nullptr;
  float* weights = nullptr;
  std::int32_t experts = 0, per_token = 0;
  float scale = 1, near = 0;
  const std::int32_t* num_rows = nullptr;  // as in RouteArgs
};

// weights[i] *= scales[chosen[i]]
struct ScaleChoicesArgs {
  const std::int32_t* chosen = nullptr;
  const float* scales = nullptr;
  float* weights = nullptr;
  std::int32_t count = 0;
};

}  // namespace pagoda::device
