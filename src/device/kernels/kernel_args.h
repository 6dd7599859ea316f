#pragma once
// Arguments of kernels: plain structs of device pointers and numbers, one a kernel, the same for nvcc and for
// the host's compiler. Activations are f32, row-major. Weights and K and V are f32 or bf16, as the kernel's
// name ends. Launch shapes stand beside the kernels and are made by kernel_launches.h.
#include <cstddef>
#include <cstdint>

#include "device/kernels/stored_layouts.h"

namespace pagoda::device {

// out[r] = (accumulate: out[r] +) scale * table[ids[r] + first_row]; rounded: of quantised weights, to
// bfloat16 before they are scaled
struct EmbeddingArgs {
  const void* table = nullptr;  // [vocabulary, width]
  const std::int32_t* ids = nullptr;
  float* out = nullptr;  // [rows, width]
  std::int32_t width = 0;
  float scale = 1;
  std::int32_t first_row = 0, accumulate = 0;
  std::int32_t rounded = 0;
  std::int32_t num_rows = 0;  // ids beyond so many rows are another rank's and get zeros; 0: none are
};

// rms_norm: out[r] = x[r] / sqrt(mean(x[r]^2) + eps) * weight
// layer_norm: of x[r] less its mean, (+ bias). `out` may be `x`, or null where `rounded` is there, into which
// the same goes as RoundRowsArgs has it.
struct NormArgs {
  const float* x = nullptr;
  const float* weight = nullptr;
  float* out = nullptr;
  std::int32_t width = 0;
  float eps = 0;
  const float* bias = nullptr;  // or null
  std::int32_t stride = 0;      // from a row to the next, of x and out; 0: width
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
  std::uint16_t* out = nullptr;  // the same, as bits
  std::int32_t width = 0;
  std::int32_t slab_rows = 0;  // not 0: so many rows in slabs (launch_shapes.h), with zeros behind their ends
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
  std::uint16_t* rounded = nullptr;  // or null; as NormArgs has it
};

// y[r, n] = (accumulate: y[r, n] +) sum over k of x[r, k] * weight[n, k] (+ bias[n]), k ascending; by tiles:
// x and weights rounded to bfloat16.
struct LinearArgs {
  const float* x = nullptr;
  const void* weight = nullptr;  // [n, k]
  const float* bias = nullptr;   // or null
  float* y = nullptr;
  std::int32_t rows = 0, n = 0, k = 0;
  std::int32_t accumulate = 0;
  // Products by tiles: room for x in bfloat16, slab_elements() (launch_shapes.h), or x itself there, where
  // `x` is null; few rows: [rows, k] or null.
  std::uint16_t* rounded = nullptr;
  std::int32_t stride = 0;  // from a row of y to the next; 0: n
};

// A product of few rows by tiles, with the norm of its input, as rms_norm and layer_norm have it, and the
// function behind it, as activate has it: y[r] = f(norm(x[r]) W^T + bias), with the bits of three launches.
struct InputNorm {
  enum class Kind : std::int32_t { none, rms, layer };
  Kind kind = Kind::none;
  const float *weight = nullptr, *bias = nullptr;  // [k] at multiples of 16 bytes, or null
  float eps = 0;
};
struct OutputFunction {
  std::int32_t is_there = 0;
  Function function = Function::silu;
  std::int32_t gated = 0;  // weight is [2 * n, k], the gate above what it opens; and so is bias
};
struct FewLinearArgs {
  LinearArgs product;
  InputNorm norm;
  OutputFunction output;  // none where the product is added to y
};
// A product by warpgroups of a gate and of what it opens, and its function, silu: out[r, i] = silu(gate) *
// up, to the nearest bfloat16, in slabs of product.rows (launch_shapes.h), whole ones. product: weight is [2
// * n, k], the gate above what it opens, and so is bias; x is rounded already; there is no y.
struct GatedLinearArgs {
  LinearArgs product;
  std::uint16_t* out = nullptr;
};
// Several matrices of the same k, each with an element type of its own, one below the other: y of the first
// stands before y of the second in a row. Of `all`, the product's weight, bias and n are not read.
inline constexpr std::int32_t kMostParts = 3;
struct LinearPart {
  const void* weight = nullptr;  // [n, k]
  const float* bias = nullptr;   // [n], or null
  std::int32_t n = 0;
  std::int32_t tile_element = 0;  // the Element, counted from bf16 on without i8
  std::int32_t first_tile = 0;    // the launch has tiles of all parts
  std::int32_t first_column = 0;  // in a row of y
};
struct LinearPartsArgs {
  FewLinearArgs all;
  LinearPart parts[kMostParts];
  std::int32_t count = 0;
};

// Which experts a row goes through, by kernels/routing_rule.h, ascending; NaN is chosen last.
enum class Score : std::int32_t { softmax, softmax_of_chosen, sigmoid };
struct TileOfPairs;
struct RouteArgs {
  const float* logits = nullptr;      // [rows, experts]
  const float* correction = nullptr;  // [experts], of what experts are chosen by; or null
  std::int32_t* chosen = nullptr;     // [rows, per_token]; -1 of rows that do not choose
  float* weights = nullptr;           // the same
  std::int32_t experts = 0, per_token = 0;
  std::int32_t groups = 1, groups_used = 1, best_two = 0;
  Score score = Score::softmax;
  std::int32_t renormalize = 0;
  float scale = 1;
  const std::int32_t* num_rows = nullptr;  // so many rows choose; or null: all of the launch
  // GroupPairsArgs', for a single row, whose choices are sorted already; or null.
  std::int32_t* slots = nullptr;
  TileOfPairs* tiles = nullptr;
};

// Pairs of a row and one of its choices, sorted by expert: those of expert e follow each other in `slots`,
// ascending, and are cut into tiles of kPairsOfTile.
inline constexpr std::int32_t kPairsOfTile = 16;
struct TileOfPairs {
  std::int32_t expert = 0, first = 0, behind = 0;  // slots[first, behind)
};
// So many tiles there are at most.
constexpr std::int32_t most_tiles(std::int32_t pairs, std::int32_t experts) {
  const std::int32_t all = (pairs + kPairsOfTile - 1) / kPairsOfTile + experts;
  return all < pairs ? all : pairs;
}
struct GroupPairsArgs {
  const std::int32_t* chosen = nullptr;  // [pairs]; -1: of no expert, and in no tile
  std::int32_t* slots = nullptr;         // [pairs]
  TileOfPairs* tiles = nullptr;          // [most_tiles()]; expert -1 where there is none
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
  // grouped_float8, which does not read x: codes in bfloat16 and scales of its rows (float8_args.h).
  const std::uint16_t* codes = nullptr;
  const float* scales = nullptr;
  std::int32_t blocks = 0;  // a scale for each kFloat8Scale; else for each row
};

// y[r] = (accumulate: y[r] +) sum over j of (weights[r, j] *) x[r, j], j ascending
struct CombineArgs {
  const float* x = nullptr;        // [rows, per_token, width]
  const float* weights = nullptr;  // [rows, per_token], or null
  float* y = nullptr;              // [rows, width]
  std::int32_t width = 0, per_token = 0;
  std::int32_t accumulate = 0;
};

// The place of K and V. A block of the cache has block_size token slots of every layer: [layer][K|V][KV
// head][slot][head_size]. In 8 bits a slot is padded to a multiple of 4, and behind a head's slots lie their
// scales, an f32 each.
struct CacheArgs {
  void* cache = nullptr;
  std::int64_t block_elements = 0;  // from one block to the next
  std::int64_t layer_offset = 0;    // elements from a block's start to the layer's keys
  std::int32_t block_size = 0, num_kv_heads = 0, head_size = 0;
  float key_scale = 1, value_scale = 1;  // 8-bit floats: x = scale * number
};

// For each row's query, key and value heads: norms of queries and keys, rotation (halves), and keys and
// values into their slots. Queries stay in place; keys are left there as they were written.
struct RopeAndWriteArgs {
  CacheArgs cache;
  float* qkv = nullptr;                     // [rows, (query + 2 KV heads) * head_size]
  const std::int32_t* positions = nullptr;  // [rows]
  const std::int32_t* tables = nullptr;     // [rows]: as AttentionArgs has it
  const std::int32_t* block_tables = nullptr;
  const std::int32_t* turns = nullptr;                     // [rows]: the row's line of cos_sin
  const float* cos_sin = nullptr;                          // [lines][rotary_size]: cosines, then sines
  const float *query_norm = nullptr, *key_norm = nullptr;  // [head_size], or null
  float norm_eps = 0;
  std::int32_t num_query_heads = 0, rotary_size = 0;
  std::int32_t norm_stride = 0;  // from a head's weights to the next one's; 0: all have the same
  std::int32_t centred = 0;      // the norm takes the mean away first
  std::int32_t norm_behind = 0;  // weights behind the rotation, which keeps what the norm divides by
  // Queries are scaled by 1 + query_temperature * ln(1 + floor((position + temperature_offset) /
  // temperature_positions)).
  float query_temperature = 0;
  std::int32_t temperature_offset = 0, temperature_positions = 1;
};

// Attention of rows over the cache, which has their own keys and values already, or gets them (`write`).
inline constexpr std::int32_t kSplitTokens = 64;  // tokens of a context that are summed up by themselves
PAGODA_HOST_DEVICE constexpr std::int32_t splits_of(std::int32_t context) {
  return (context + kSplitTokens - 1) / kSplitTokens;
}
inline constexpr std::int32_t kMaxHeadSize = 512, kMaxHeadGroup = 16;  // query heads of a KV head
// Floats that a split leaves of a head: sums of values, the largest score and the sum of weights; whole
// pieces of 16 bytes.
PAGODA_HOST_DEVICE constexpr std::int32_t partial_line(std::int32_t head_size) {
  return (head_size + 2 + 3) / 4 * 4;
}
struct AttentionArgs {
  CacheArgs cache;
  const float* qkv = nullptr;               // queries first in each row
  const std::int32_t* rows = nullptr;       // [gridDim.x]: the rows that this launch is about
  const std::int32_t* positions = nullptr;  // [all rows]
  // [all rows]: where the blocks of the row's sequence begin in block_tables; -1: the row is padding, which
  // writes no keys and values, and has no result.
  const std::int32_t* tables = nullptr;
  const std::int32_t* block_tables = nullptr;
  const float* sinks = nullptr;      // [query heads], or null: a score without a value
  const float* slopes = nullptr;     // [query heads], or null: what a token of distance costs (ALiBi)
  float* partial = nullptr;          // [launch's rows, query heads, splits, partial_line()]
  std::uint32_t* tickets = nullptr;  // [launch's rows, KV heads], of splits: 0 before a launch and behind it
  const std::int32_t* tiles =
      nullptr;  // [tiles + 1], of attend_tiles: where each tile's rows begin in `rows`
  // [all rows, query heads * head_size]; or null, and it goes into `rounded`, to the nearest bfloat16, in
  // slabs of all rows (launch_shapes.h), whole ones.
  float* out = nullptr;
  std::uint16_t* rounded = nullptr;
  std::int32_t slab_rows = 0;
  std::int32_t num_query_heads = 0, splits = 0;
  std::int64_t all_splits = 0;   // the sum over the launch's rows; 0: all have `splits`
  std::int32_t window = 0;       // sees so many tokens, itself included; 0: all
  std::int32_t chunks = 0;       // chunks of `window` tokens: a token sees its own chunk alone
  float scale = 1, softcap = 0;  // scale: with the keys' of 8-bit floats
  // Decode by tiles, where each sequence has one row, does what rope_and_write() would have done before, with
  // the same bits in the cache; qkv stays as it is. write.qkv null: that was done.
  RopeAndWriteArgs write = {};
};

// Whole blocks. No block is the target of one pair and part of another.
struct CopyBlocksArgs {
  std::byte* cache = nullptr;
  const std::int32_t *from = nullptr, *to = nullptr;  // [gridDim.x]
  std::int64_t block_bytes = 0;                       // a multiple of 8
};

// Which tokens a sequence has: a line of counts for each that penalties need. counts[line, token]: how often
// its output has the token, and in the highest bit whether its prompt has it.
struct CountRow {
  std::int32_t line = 0, reset = 0;  // reset: nothing of the line is counted
  std::int64_t first = 0;            // in CountTokensArgs::tokens: of the prompt, then of the output
  std::int32_t prompt = 0, output = 0;
};
// Rows of a step get the tokens that the step before has drawn: ids[to.row] = drawn[to.place].
struct DrawnPlace {
  std::int32_t row = 0, place = 0;
};
struct FillInTokensArgs {
  std::int32_t* ids = nullptr;
  const std::int32_t* drawn = nullptr;
  const DrawnPlace* places = nullptr;  // [count]
  std::int32_t count = 0;
};

// When all that stands in front of it has ended, in nanoseconds of the device's clock.
struct NoteTimeArgs {
  std::uint64_t* time = nullptr;
};

struct CountTokensArgs {
  std::uint32_t* counts = nullptr;
  const CountRow* rows = nullptr;  // [gridDim.x]; lines differ
  const std::int32_t* tokens = nullptr;
  std::int32_t vocabulary = 0;
};

// A change of one token's logit by a request's parameters, in this order. A token has at most one in a row.
struct LogitEdit {
  std::int32_t token = 0;
  std::int32_t masked = 0;
  float bias = 0;
  std::int32_t output_count = 0;  // drafts that have the token, which counts have not
  float value = 0;                // room for what becomes of the logit
};
struct EditRow {
  std::int32_t row = 0;                    // row of the logits
  std::int32_t copy = -1;                  // line of EditLogitsArgs::copies: the row behind `mask`; or -1
  std::int32_t counts = -1;                // line of the sequence's counts, or -1
  std::int32_t first_edit = 0, edits = 0;  // in EditLogitsArgs::edits
  // First words of masks with a bit for each token that may be drawn, or -1. Where the second and the edits
  // leave nothing, the best of what the first leaves is drawn: EditLogitsArgs::best.
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

// A row's draws; as Sampler (sampler/sampler.h) has it.
struct DrawRow {
  std::int32_t row = 0;      // row of the logits
  float temperature = 0;     // 0: greedy
  float min_p_distance = 0;  // from the largest logit to the least that stays; -infinity: off
  float top_p = 1;
  std::int32_t top_k = 0;  // 0: off
  std::uint64_t seed = 0, first_stream = 0, position = 0;
  // Index in SampleRowsArgs::tokens; candidate i is drawn from stream first + i.
  std::int32_t first_draw = 0, draws = 1;
  std::int32_t has_best = 0;  // SampleRowsArgs::best[row] is what a row without anything gives
};
struct SampleRowsArgs {
  const float* logits = nullptr;  // [rows, vocabulary]
  const DrawRow* rows = nullptr;  // [gridDim.x]
  const std::int32_t* best = nullptr;
  std::uint64_t* groups = nullptr;  // [gridDim.x, token_groups()]: room for the best of each group of tokens
  std::int32_t* tokens = nullptr;
  std::int32_t vocabulary = 0;
};

// A row's log-probabilities: the normalizer, which a logit lies above by its log-probability; logit and rank
// of tokens[first_token, first_token + tokens) into the same places of `scores`; and the `top` largest
// logits.
struct ScoreRow {
  std::int32_t row = 0, copy = -1;  // the row of `copies`, if it is none of -1, else of `logits`
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
