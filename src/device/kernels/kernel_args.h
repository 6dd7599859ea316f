#pragma once
// Arguments of kernels: one plain struct of device pointers and numbers per kernel, identical for nvcc and
// the host's compiler. Activations are f32, row-major. Weights, K and V are f32 or bf16, according to the
// suffix of the kernel's name. Launch shapes are described beside the kernels and set in kernel_launches.h.
#include <cstddef>
#include <cstdint>

#include "device/kernels/stored_layouts.h"

namespace pagoda::device {

// out[r] = (accumulate: out[r] +) scale * table[ids[r] + first_row]. rounded: quantised weights are rounded
// to bfloat16 before scaling.
struct EmbeddingArgs {
  const void* table = nullptr;  // [vocabulary, width]
  const std::int32_t* ids = nullptr;
  float* out = nullptr;  // [rows, width]
  std::int32_t width = 0;
  float scale = 1;
  std::int32_t first_row = 0, accumulate = 0;
  std::int32_t rounded = 0;
  std::int32_t num_rows = 0;  // rows on this rank: other ids give zeros; 0: all rows are here
};

// rms_norm: out[r] = x[r] / sqrt(mean(x[r]^2) + eps) * weight
// layer_norm: likewise for x[r] minus its mean (+ bias). `out` may be `x`, or null if `rounded` is set, which
// receives the result in the format of RoundRowsArgs.
struct NormArgs {
  const float* x = nullptr;
  const float* weight = nullptr;
  float* out = nullptr;
  std::int32_t width = 0;
  float eps = 0;
  const float* bias = nullptr;  // or null
  std::int32_t stride = 0;      // from a row to the next, in x and out; 0: width
  std::int32_t slab_rows = 0;
  std::uint16_t* rounded = nullptr;
};

// y[r] += scale * (gate: sigmoid(gate[r]) *) x[r]
struct AddRowsArgs {
  const float* x = nullptr;
  float* y = nullptr;
  const float* gate = nullptr;  // [rows], or null
  std::int32_t width = 0;
  float scale = 1;
};

// x[r, i] = cap * tanh(x[r, i] / cap)
struct SoftcapArgs {
  float* x = nullptr;
  std::int32_t width = 0;
  float cap = 1;
};

// out[r] = x[rows[r]]
struct GatherRowsArgs {
  const float* x = nullptr;
  const std::int32_t* rows = nullptr;
  float* out = nullptr;
  std::int32_t width = 0;
};

// out[r] = x[r], to the nearest bfloat16
struct RoundRowsArgs {
  const float* x = nullptr;      // [rows, width]
  std::uint16_t* out = nullptr;  // as bits; same shape as x
  std::int32_t width = 0;
  std::int32_t slab_rows = 0;  // not 0: this many rows in slabs (launch_shapes.h), padded with zeros
};

// The function between the matrices of a feed-forward, as in kernels/activation.h.
enum class Function : std::int32_t { silu, gelu_tanh, gelu_erf, relu, relu2, clamped_silu };
// out[r, i] = f(in[r, i]) (gated: * in[r, width + i]; + 1 and clamped, for clamped_silu)
struct ActivateArgs {
  const float* in = nullptr;  // [rows, width], or gated [rows, 2 * width]
  float* out = nullptr;       // [rows, width]
  std::int32_t width = 0;
  Function function = Function::silu;
  std::int32_t gated = 1;
  std::int32_t slab_rows = 0;
  std::uint16_t* rounded = nullptr;  // or null; as in NormArgs
};

// y[r, n] = (accumulate: y[r, n] +) sum over k of x[r, k] * weight[n, k] (+ bias[n]), k ascending. By tiles:
// x and weights are rounded to bfloat16.
struct LinearArgs {
  const float* x = nullptr;
  const void* weight = nullptr;  // [n, k]
  const float* bias = nullptr;   // or null
  float* y = nullptr;
  std::int32_t rows = 0, n = 0, k = 0;
  std::int32_t accumulate = 0;
  // Products by tiles: space for x in bfloat16, slab_elements() (launch_shapes.h), or x itself if `x` is
  // null. Few rows: [rows, k] or null.
  std::uint16_t* rounded = nullptr;
  std::int32_t stride = 0;  // from a row of y to the next; 0: n
};

// A product of few rows by tiles, with the norm of its input, as in rms_norm and layer_norm, and the function
// of its output, as in activate: y[r] = f(norm(x[r]) W^T + bias), with the bits of three launches.
struct InputNorm {
  enum class Kind : std::int32_t { none, rms, layer };
  Kind kind = Kind::none;
  const float *weight = nullptr, *bias = nullptr;  // [k] at multiples of 16 bytes, or null
  float eps = 0;
};
struct OutputFunction {
  std::int32_t is_there = 0;
  Function function = Function::silu;
  std::int32_t gated = 0;  // weight is [2 * n, k], gate above up; likewise bias
};
struct FewLinearArgs {
  LinearArgs product;
  InputNorm norm;
  OutputFunction output;  // none if the product is added to y
};
// A product by warpgroups of gate and up, followed by silu: out[r, i] = silu(gate) * up, to the nearest
// bfloat16, in whole slabs of product.rows (launch_shapes.h). product: weight is [2 * n, k], gate above up,
// and likewise bias; x is already rounded; y is not used.
struct GatedLinearArgs {
  LinearArgs product;
  std::uint16_t* out = nullptr;
};
// Several matrices of the same k, stacked, each with its own element type: y of the first precedes y of the
// second in a row. The weight, bias and n of `all.product` are not read.
inline constexpr std::int32_t kMostParts = 3;
struct LinearPart {
  const void* weight = nullptr;  // [n, k]
  const float* bias = nullptr;   // [n], or null
  std::int32_t n = 0;
  std::int32_t tile_element = 0;  // the Element, counted from bf16 on, without i8
  std::int32_t first_tile = 0;    // in the launch, which has the tiles of all parts
  std::int32_t first_column = 0;  // in a row of y
};
struct LinearPartsArgs {
  FewLinearArgs all;
  LinearPart parts[kMostParts];
  std::int32_t count = 0;
};

// The experts chosen for each row, ascending, by kernels/routing_rule.h; NaN is chosen last.
enum class Score : std::int32_t { softmax, softmax_of_chosen, sigmoid };
struct TileOfPairs;
struct RouteArgs {
  const float* logits = nullptr;      // [rows, experts]
  const float* correction = nullptr;  // [experts], added for the choice only; or null
  std::int32_t* chosen = nullptr;     // [rows, per_token]; -1 for rows that do not choose
  float* weights = nullptr;           // [rows, per_token]
  std::int32_t experts = 0, per_token = 0;
  std::int32_t groups = 1, groups_used = 1, best_two = 0;
  Score score = Score::softmax;
  std::int32_t renormalize = 0;
  float scale = 1;
  const std::int32_t* num_rows = nullptr;  // number of rows that choose; null: all rows of the launch
  // As in GroupPairsArgs, for a single row, whose choices are already sorted; or null.
  std::int32_t* slots = nullptr;
  TileOfPairs* tiles = nullptr;
};

// Pairs of a row and one of its choices, sorted by expert: the pairs of an expert are consecutive in `slots`,
// ascending, and are divided into tiles of kPairsOfTile.
inline constexpr std::int32_t kPairsOfTile = 16;
struct TileOfPairs {
  std::int32_t expert = 0, first = 0, behind = 0;  // slots[first, behind)
};
// Maximum number of tiles.
constexpr std::int32_t most_tiles(std::int32_t pairs, std::int32_t experts) {
  const std::int32_t all = (pairs + kPairsOfTile - 1) / kPairsOfTile + experts;
  return all < pairs ? all : pairs;
}
struct GroupPairsArgs {
  const std::int32_t* chosen = nullptr;  // [pairs]; -1: no expert, in no tile
  std::int32_t* slots = nullptr;         // [pairs]
  TileOfPairs* tiles = nullptr;          // [most_tiles()]; expert -1 for unused tiles
  std::int32_t pairs = 0, experts = 0;
};

// y[pair, n] = sum over k of (factors[pair] *) x[pair / pairs_of_row, k] * weight[expert of the pair, n, k]
// (+ bias[expert, n])
struct GroupedLinearArgs {
  const float* x = nullptr;
  const void* weight = nullptr;    // [experts, n, k]
  const float* bias = nullptr;     // [experts, n], or null
  const float* factors = nullptr;  // [pairs], or null
  float* y = nullptr;              // [pairs, n]
  const std::int32_t* slots = nullptr;
  const TileOfPairs* tiles = nullptr;
  std::int32_t pairs = 0, experts = 0, n = 0, k = 0;
  std::int32_t pairs_of_row = 1;
  // For grouped_float8, which does not read x: codes in bfloat16 and scales of its rows (float8_args.h).
  const std::uint16_t* codes = nullptr;
  const float* scales = nullptr;
  std::int32_t blocks = 0;  // not 0: a scale per kFloat8Scale; else one per row
};

// y[r] = (accumulate: y[r] +) sum over j of (weights[r, j] *) x[r, j], j ascending
struct CombineArgs {
  const float* x = nullptr;        // [rows, per_token, width]
  const float* weights = nullptr;  // [rows, per_token], or null
  float* y = nullptr;              // [rows, width]
  std::int32_t width = 0, per_token = 0;
  std::int32_t accumulate = 0;
};

// Location of K and V. A block of the cache has block_size token slots of every layer: [layer][K|V][KV
// head][slot][head_size]. In 8 bits a slot is padded to a multiple of 4, and the scales of a head's slots,
// one f32 each, follow its slots.
struct CacheArgs {
  void* cache = nullptr;
  std::int64_t block_elements = 0;  // from one block to the next
  std::int64_t layer_offset = 0;    // elements from a block's start to the layer's keys
  std::int32_t block_size = 0, num_kv_heads = 0, head_size = 0;
  float key_scale = 1, value_scale = 1;  // 8-bit floats: x = scale * code
};

// For each row's query, key and value heads: norms of queries and keys, rotation (halves), and the write of
// keys and values into their slots. Queries are updated in place; keys in qkv are left unchanged.
struct RopeAndWriteArgs {
  CacheArgs cache;
  float* qkv = nullptr;                     // [rows, (query + 2 KV heads) * head_size]
  const std::int32_t* positions = nullptr;  // [rows]
  const std::int32_t* tables = nullptr;     // [rows]; as in AttentionArgs
  const std::int32_t* block_tables = nullptr;
  const std::int32_t* turns = nullptr;                     // [rows]: the row of cos_sin
  const float* cos_sin = nullptr;                          // [lines][rotary_size]: cosines, then sines
  const float *query_norm = nullptr, *key_norm = nullptr;  // [head_size], or null
  float norm_eps = 0;
  std::int32_t num_query_heads = 0, rotary_size = 0;
  std::int32_t norm_stride = 0;  // from a head's weights to the next head's; 0: all heads share them
  std::int32_t centred = 0;      // the norm subtracts the mean first
  std::int32_t norm_behind = 0;  // weights after the rotation, which keeps the norm's divisor
  // Queries are scaled by 1 + query_temperature * ln(1 + floor((position + temperature_offset) /
  // temperature_positions)).
  float query_temperature = 0;
  std::int32_t temperature_offset = 0, temperature_positions = 1;
};

// Attention of rows over the cache, which already has their own keys and values, or receives them (`write`).
inline constexpr std::int32_t kSplitTokens = 64;  // tokens of a context that are summed separately
PAGODA_HOST_DEVICE constexpr std::int32_t splits_of(std::int32_t context) {
  return (context + kSplitTokens - 1) / kSplitTokens;
}
inline constexpr std::int32_t kMaxHeadSize = 512, kMaxHeadGroup = 16;  // query heads of a KV head
// Number of floats in the partial result of a split and head: sums of values, the largest score and the sum
// of weights; whole pieces of 16 bytes.
PAGODA_HOST_DEVICE constexpr std::int32_t partial_line(std::int32_t head_size) {
  return (head_size + 2 + 3) / 4 * 4;
}
struct AttentionArgs {
  CacheArgs cache;
  const float* qkv = nullptr;               // queries first in each row
  const std::int32_t* rows = nullptr;       // [gridDim.x]: the rows of this launch
  const std::int32_t* positions = nullptr;  // [all rows]
  // [all rows]: the index in block_tables at which the blocks of the row's sequence begin; -1: the row is
  // padding, which writes no keys and values, and has no result.
  const std::int32_t* tables = nullptr;
  const std::int32_t* block_tables = nullptr;
  const float* sinks = nullptr;      // [query heads], or null: a score without a value
  const float* slopes = nullptr;     // [query heads], or null: the cost per token of distance (ALiBi)
  float* partial = nullptr;          // [launch's rows, query heads, splits, partial_line()]
  std::uint32_t* tickets = nullptr;  // [launch's rows, KV heads], of splits: 0 before and after a launch
  const std::int32_t* tiles =
      nullptr;  // [tiles + 1], of attend_tiles: where each tile's rows begin in `rows`
  // [all rows, query heads * head_size]; if null, the result goes to `rounded`, to the nearest bfloat16, in
  // whole slabs of all rows (launch_shapes.h).
  float* out = nullptr;
  std::uint16_t* rounded = nullptr;
  std::int32_t slab_rows = 0;
  std::int32_t num_query_heads = 0, splits = 0;
  std::int64_t all_splits = 0;   // the sum over the launch's rows; 0: every row has `splits`
  std::int32_t window = 0;       // number of visible tokens, including its own; 0: all
  std::int32_t chunks = 0;       // not 0: chunks of `window` tokens; a token sees only its own chunk
  float scale = 1, softcap = 0;  // scale: includes key_scale of 8-bit floats
  // Decode by tiles, if each sequence has one row, also does the work of rope_and_write(), with the same bits
  // in the cache; qkv is left unchanged. write.qkv null: rope_and_write() has already run.
  RopeAndWriteArgs write = {};
};

// Copies whole blocks. No block is the target of one pair and also part of another.
struct CopyBlocksArgs {
  std::byte* cache = nullptr;
  const std::int32_t *from = nullptr, *to = nullptr;  // [gridDim.x]
  std::int64_t block_bytes = 0;                       // a multiple of 8
};

// The tokens of a sequence: one line of counts for each sequence whose penalties need it. counts[line,
// token]: how often its output has the token; the highest bit says whether its prompt has it.
struct CountRow {
  std::int32_t line = 0, reset = 0;  // reset: the line is cleared first
  std::int64_t first = 0;            // in CountTokensArgs::tokens: prompt tokens, then output tokens
  std::int32_t prompt = 0, output = 0;
};
// Rows of a step receive the tokens drawn by the previous step: ids[to.row] = drawn[to.place].
struct DrawnPlace {
  std::int32_t row = 0, place = 0;
};
struct FillInTokensArgs {
  std::int32_t* ids = nullptr;
  const std::int32_t* drawn = nullptr;
  const DrawnPlace* places = nullptr;  // [count]
  std::int32_t count = 0;
};

// The time at which all earlier work in the stream has ended, in nanoseconds of the device's clock.
struct NoteTimeArgs {
  std::uint64_t* time = nullptr;
};

struct CountTokensArgs {
  std::uint32_t* counts = nullptr;
  const CountRow* rows = nullptr;  // [gridDim.x]; all lines differ
  const std::int32_t* tokens = nullptr;
  std::int32_t vocabulary = 0;
};

// A change of one token's logit by a request's parameters, applied in this order. At most one per token and
// row.
struct LogitEdit {
  std::int32_t token = 0;
  std::int32_t masked = 0;
  float bias = 0;
  std::int32_t output_count = 0;  // number of draft tokens equal to `token`, not yet in the counts
  float value = 0;                // scratch space for the new logit
};
struct EditRow {
  std::int32_t row = 0;                    // row of the logits
  std::int32_t copy = -1;                  // line of EditLogitsArgs::copies for the row after `mask`, or -1
  std::int32_t counts = -1;                // line of the sequence's counts, or -1
  std::int32_t first_edit = 0, edits = 0;  // in EditLogitsArgs::edits
  // Index of the first word of a mask with a bit for each token that may be drawn, or -1. If `allowed` and
  // the edits leave no token, the best token that `mask` leaves is drawn: EditLogitsArgs::best.
  std::int64_t mask = -1, allowed = -1;
  float repetition = 1, frequency = 0, presence = 0;
};
struct EditLogitsArgs {
  float* logits = nullptr;  // [rows, vocabulary], in place
  float* copies = nullptr;
  const EditRow* rows = nullptr;
  LogitEdit* edits = nullptr;
  const std::uint32_t* counts = nullptr;
  const std::uint32_t* masks = nullptr;
  std::int32_t* best = nullptr;  // [rows of logits]
  std::int32_t vocabulary = 0;
};

// The draws of a row, as in Sampler (sampler/sampler.h).
struct DrawRow {
  std::int32_t row = 0;      // row of the logits
  float temperature = 0;     // 0: greedy
  float min_p_distance = 0;  // from the largest logit to the smallest that stays; -infinity: off
  float top_p = 1;
  std::int32_t top_k = 0;  // 0: off
  std::uint64_t seed = 0, first_stream = 0, position = 0;
  // Index in SampleRowsArgs::tokens; candidate i is drawn from stream first_stream + i.
  std::int32_t first_draw = 0, draws = 1;
  std::int32_t has_best = 0;  // SampleRowsArgs::best[row] is the result if no token is left
};
struct SampleRowsArgs {
  const float* logits = nullptr;  // [rows, vocabulary]
  const DrawRow* rows = nullptr;  // [gridDim.x]
  const std::int32_t* best = nullptr;
  std::uint64_t* groups = nullptr;  // [gridDim.x, token_groups()]: space for the best of each group of tokens
  std::int32_t* tokens = nullptr;
  std::int32_t vocabulary = 0;
};

// Log-probabilities of a row: the normalizer, which is the logit minus its log-probability; logit and rank of
// tokens[first_token, first_token + tokens), stored at the same indices of `scores`; and the `top` largest
// logits.
struct ScoreRow {
  std::int32_t row = 0, copy = -1;  // copy: the row of `copies`; -1: the row is in `logits`
  std::int32_t first_token = 0, tokens = 0, first_top = 0, top = 0;
};
struct TokenScore {
  std::int32_t rank = 0;
  float logit = 0;
};
struct ScoredToken {
  std::int32_t token = 0;
  float logit = 0;
};
struct ScoreRowsArgs {
  const float *logits = nullptr, *copies = nullptr;
  const ScoreRow* rows = nullptr;  // [gridDim.x]
  const std::int32_t* tokens = nullptr;
  float* normalizers = nullptr;  // [gridDim.x]
  TokenScore* scores = nullptr;
  ScoredToken* top = nullptr;
  std::int32_t vocabulary = 0;
};

}  // namespace pagoda::device
