#pragma once
// The sizes that kernels and those who launch them agree on.
#include <cstdint>

#include "device/kernels/kernel_args.h"

namespace pagoda::device {

namespace choices {
#define PAGODA_CHOICE(name, value) inline constexpr std::int32_t name = value;
#ifdef PAGODA_DEVICE_CHOICES
#include "device/tuned_choices.def"
#else
#include "device/kernels/choices.def"
#endif
#undef PAGODA_CHOICE
}  // namespace choices

// Threads of a row's block (rows.cuh); of a norm's from kWideRow elements on.
inline constexpr std::int32_t kRowThreads = 128, kWideRowThreads = 512, kWideRow = 1024;
// ... which stand for four each. By the width alone: its sum's order is theirs.
constexpr std::uint32_t norm_threads(std::int32_t width) {
  return static_cast<std::uint32_t>(width >= kWideRow ? kWideRowThreads : kRowThreads) / 4;
}

// Heads of a block that rotates them and writes keys and values (paged_cache.cuh), a warp each.
inline constexpr std::int32_t kRopeWarps = 4;

inline constexpr std::int32_t kLinearTile = 16, kLinearDepth = 32;
inline constexpr std::uint32_t kLinearSharedBytes = 2 * kLinearTile * (kLinearDepth + 1) * sizeof(float);

// A product by tiles (linear_tiles.cuh): a block's rows of x and rows of the weights, a stage's share of k,
// the warps' division of rows and columns of y, the number of stages in shared memory, and how many blocks of
// the same rows share their copies of x.
struct ProductTile {
  std::int32_t rows, columns, depth, warps_of_rows, warps_of_columns, stages;
  std::int32_t cluster = 1;
};
// x in bfloat16 for them: slabs of kSlab of k, of all rows, one behind the other; in a slab a row's pieces of
// 16 bytes lie as they do in shared memory, so that eight rows are read from different banks. A stage's part
// of neighbouring rows is one piece of memory, or two. k is filled up with zeros to a multiple of kSlabStep.
inline constexpr std::int32_t kSlab = 64, kSlabStep = 128, kSlabRowBytes = 2 * kSlab;
PAGODA_HOST_DEVICE constexpr std::int32_t slab_width(std::int32_t k) {
  return (k + kSlabStep - 1) / kSlabStep * kSlabStep;
}
PAGODA_HOST_DEVICE constexpr std::int64_t slab_elements(std::int64_t rows, std::int32_t k) {
  return rows * slab_width(k);
}
PAGODA_HOST_DEVICE constexpr std::int64_t slab_place(std::int64_t rows, std::int32_t row, std::int32_t i) {
  const std::int32_t piece = i / 8 % (kSlab / 8) ^ row % 8;
  return (i / kSlab * rows + row) * kSlab + 8 * piece + i % 8;
}
// Bound by what is read of the weights: each warp has stages of its own, and the block rounds x (linear_few).
inline constexpr ProductTile kFewRows = {16, 8 * choices::few_warps, 128,
                                         1,  choices::few_warps,     choices::few_stages};
inline constexpr ProductTile kSeveralRows = {
    32, 32, 128, 1, 4, choices::several_stages, choices::several_cluster};
// So many rows read as much as the weights where blocks have few columns: kWideRows takes more, where that
// leaves enough blocks.
inline constexpr ProductTile kSomeRows = {64, 32, 128, 2, 2, choices::some_stages, choices::some_cluster};
inline constexpr ProductTile kWideRows = {64, 128, 64, 2, 2, choices::wide_stages};
inline constexpr ProductTile kManyRows = {128, 128, 64, 2, 2, choices::many_stages};
// The same by warpgroups, where the device has them (linear_bulk.cuh): blocks that share copies, one a
// processor, each with 128 rows of the weights, and with as many stages as `bulk_kib` has room for.
// kBulkClusters of them run at once, and go from tile to tile.
PAGODA_HOST_DEVICE constexpr ProductTile bulk_rows(std::int32_t rows) {
  return {rows, 128, kSlab, 1, 8, choices::bulk_kib * 1024 / ((rows + 128) * kSlabRowBytes), 2};
}
inline constexpr std::int32_t kBulkWarpgroups = 2, kBulkBringers = 128,
                              kBulkThreads = 128 * kBulkWarpgroups + kBulkBringers;
// Threads that copy weights as they are, among those who bring; then the first of a warp that brings x, and
// the first of one that tells.
inline constexpr std::int32_t kBulkCopiers = 64, kBulkSharer = 64, kBulkTeller = 96;
// The same of fewer rows, 32, 64 or 128, and few columns (linear_narrow.cuh), with room for as many stages.
// Blocks of 128 rows read weights half as often as those of 64, which counts where k is large.
PAGODA_HOST_DEVICE constexpr ProductTile narrow_tile(std::int32_t columns, std::int32_t rows) {
  const std::int32_t stage = (rows + columns) * 2 * kSlabRowBytes;
  return {rows, columns, 2 * kSlab, 4, 1, choices::bulk_kib * 1024 / stage, 2};
}
inline constexpr std::int32_t kNarrowColumns[] = {32, 48, 64, 112}, kTallColumns[] = {64, 112},
                              kTallRows = 128;
PAGODA_HOST_DEVICE constexpr std::int32_t narrow_threads(std::int32_t rows) {
  return 128 * ((rows + 63) / 64) + kBulkBringers;
}
// Registers of a thread that multiplies 256 rows, and of one that brings them: more where it widens.
template <bool quantized>
inline constexpr std::int32_t kBulkRegisters = quantized ? 192 : 232;
template <bool quantized>
inline constexpr std::int32_t kBulkBringersRegisters = quantized ? 112 : 40;
// A block of two warpgroups that multiply and one that brings begins with equal shares. What the first two
// take more, the last one has to give: else they wait for it for ever.
constexpr bool shares_registers(std::int32_t multiplies, std::int32_t brings) {
  constexpr std::int32_t kEqual = 65536 / (3 * 128) / 8 * 8;
  return 2 * (multiplies - kEqual) <= kEqual - brings;
}
static_assert(shares_registers(kBulkRegisters<true>, kBulkBringersRegisters<true>) &&
              shares_registers(kBulkRegisters<false>, kBulkBringersRegisters<false>));
inline constexpr std::int64_t kBulkClusters = choices::bulk_clusters;
// The tiles of a product that clusters of such blocks go through.
constexpr std::int64_t cluster_tiles(const ProductTile& tile, std::int32_t rows, std::int32_t n) {
  const std::int64_t columns = std::int64_t{tile.cluster} * tile.columns;
  return (std::int64_t{rows} + tile.rows - 1) / tile.rows * ((n + columns - 1) / columns);
}
// The most rows of a product that takes them. More are faster by kSeveralRows, although norms and functions
// are launches of their own then.
inline constexpr std::int32_t kMostFewRows = choices::few_rows;
// Bytes of x in bfloat16 that a block of kFewRows holds at once.
inline constexpr std::int32_t kFewInputBytes = choices::few_input_kib * 1024;
// Behind them: sums of warps, and a mean and a scale for each row (linear_few.cuh).
inline constexpr std::int32_t kFewSums = kWideRowThreads / 32, kFewMomentBytes = 4 * (kFewSums + 2 * 16);
// Multiplications and rows of a product from which on a launch that rounds x is worth having: blocks read
// half as much of it, which counts where it is not much less than what they read of the weights.
inline constexpr std::int64_t kFewRounded = std::int64_t{1'000'000} * choices::few_rounded;
inline constexpr std::int32_t kFewRoundedRows = 5;
// The most rows whose norm is worked out by each block.
inline constexpr std::int32_t kFewNorms = choices::few_norms;
// So many blocks of kManyRows, and of kWideRows, are worth having: fewer leave processors idle, and
// kSomeRows' are smaller.
inline constexpr std::int64_t kManyBlocks = choices::many_blocks, kWideBlocks = choices::wide_blocks;

constexpr std::int32_t product_threads(const ProductTile& tile) {
  return 32 * tile.warps_of_rows * tile.warps_of_columns;
}
// Whether weights of which 32 have `group` bytes come in units of kQuantizedUnit.
// Quantized5K's 24 bytes are those of Quantized4, and 25 stand for them.
inline constexpr std::int32_t kQuantized5KGroup = 25;
PAGODA_HOST_DEVICE constexpr bool has_units(std::int32_t group) {
  return group == 20 || group == kQuantized5KGroup || group == 28;
}
PAGODA_HOST_DEVICE constexpr std::int32_t unit_pieces(std::int32_t group) { return group / 4; }
static_assert(sizeof(Quantized4K) == 16 * unit_pieces(20) &&
              sizeof(Quantized5K) == 16 * unit_pieces(kQuantized5KGroup) &&
              sizeof(Quantized6K) == 16 * unit_pieces(28));
// 8-bit floats, with a scale for a row, or for each kFloat8Scale of it: their codes are swizzled, and a stage
// has a piece more for each row where such scales lie.
inline constexpr std::int32_t kFloat8Group = 32, kFloat8BlocksGroup = 33;
PAGODA_HOST_DEVICE constexpr bool is_float8(std::int32_t group) {
  return group == kFloat8Group || group == kFloat8BlocksGroup;
}
// 4-bit floats, with powers of two, or with scales: a row has a piece more in a stage, where these are.
inline constexpr std::int32_t kFloat4Group = 17, kFloat4ScaledGroup = 18;
PAGODA_HOST_DEVICE constexpr bool is_float4(std::int32_t group) {
  return group == kFloat4Group || group == kFloat4ScaledGroup;
}
// Pieces of 16 bytes that a row of weights has in a stage, where 32 weights have `group` bytes: more where a
// stage may begin within one. Units are copied whole.
constexpr std::int32_t product_pieces(const ProductTile& tile, std::int32_t group) {
  if (has_units(group)) return (tile.depth + kQuantizedUnit - 1) / kQuantizedUnit * unit_pieces(group);
  if (is_float8(group)) return tile.depth / 16;
  if (is_float4(group)) return tile.depth / 32 + 1;
  const std::int32_t bytes = tile.depth / 32 * group;
  return (bytes + (bytes % 16 != 0 ? 8 : 0) + 15) / 16;
}
// Bytes from a row to the next: of groups that are not swizzled an odd number of pieces, so that eight rows
// lie in different banks.
constexpr std::int32_t product_pitch(const ProductTile& tile, std::int32_t group) {
  const std::int32_t pieces = product_pieces(tile, group);
  return 16 * (group == 64 || is_float8(group) || pieces % 2 == 1 ? pieces : pieces + 1);
}
constexpr std::int32_t product_weight_bytes(const ProductTile& tile, std::int32_t group) {
  return tile.columns * (product_pitch(tile, group) + (group == kFloat8BlocksGroup ? 16 : 0));
}
constexpr std::int32_t product_stage_bytes(const ProductTile& tile, std::int32_t group) {
  return product_weight_bytes(tile, group) + 2 * tile.rows * tile.depth;
}
// Behind the stages of blocks that share copies: up to three barriers for each.
constexpr std::uint32_t product_shared_bytes(const ProductTile& tile, std::int32_t group) {
  return static_cast<std::uint32_t>(tile.stages *
                                    (product_stage_bytes(tile, group) + (tile.cluster > 1 ? 24 : 0)));
}
// Blocks of few rows hold 16 rows of a stage or more.
static_assert(kFewInputBytes >= 2 * kFewRows.rows * kFewRows.depth);
// 8-bit floats come by stages of as many bytes as bfloat16, in which two sums go on side by side.
PAGODA_HOST_DEVICE constexpr ProductTile few_tile(std::int32_t group) {
  ProductTile tile = kFewRows;
  if (is_float8(group)) tile.depth *= 2;
  return tile;
}
static_assert(kFewInputBytes >= 2 * kFewRows.rows * few_tile(kFloat8Group).depth);
// Rows of x of a block that has no pairs of experts: of 8-bit floats so many as leave room for two blocks of
// k side by side (few_pairs.cuh), else half of a matrix, so that half as much of it is read.
inline constexpr std::int32_t kPairedRows = 4;
PAGODA_HOST_DEVICE constexpr std::int32_t few_block_rows(std::int32_t group) {
  return is_float8(group) ? kPairedRows : kFewRows.rows / 2;
}
// `rows` of x, or of them as much as is held at once: each 16 bytes further than its elements are, so that
// eight lie in different banks. Beside weights of bfloat16 rows are swizzled, and have all room that x may
// have: blocks with less, of which a processor holds more, were not measured.
PAGODA_HOST_DEVICE constexpr std::int32_t few_input_bytes(std::int32_t group, std::int32_t rows,
                                                          std::int32_t k) {
  if (group == 64) return kFewInputBytes;
  const std::int32_t depth = few_tile(group).depth;
  const std::int64_t all = std::int64_t{2} * rows * ((k + depth - 1) / depth * depth);
  return (all < kFewInputBytes ? static_cast<std::int32_t>(all) : kFewInputBytes) + 16 * rows;
}
constexpr std::uint32_t few_shared_bytes(std::int32_t group, std::int32_t rows, std::int32_t k) {
  return static_cast<std::uint32_t>(kFewRows.stages * product_weight_bytes(few_tile(group), group) +
                                    few_input_bytes(group, rows, k) + kFewMomentBytes);
}
static_assert(kFewNorms <= kMostFewRows && kMostFewRows <= kFewRows.rows && kFewRows.rows == 16);

// Attention by tiles (attention_tiles.cuh), for heads of up to `padded`: 64, 128 or 256.
inline constexpr std::int32_t kTileWarps = 4;
constexpr std::int32_t tile_rows(std::int32_t padded) {
  return padded > 128 ? 32 : 64;
}  // query heads of tokens
// Warps of decode's block, each with a split.
PAGODA_HOST_DEVICE constexpr std::int32_t split_warps(std::int32_t padded) { return 256 / padded; }
// Elements from a token to the next in shared memory: eight more, so that eight tokens lie in different
// banks.
PAGODA_HOST_DEVICE constexpr std::int32_t tile_stride(std::int32_t padded) { return padded + 8; }
// Keys and values of a split.
PAGODA_HOST_DEVICE constexpr std::uint32_t tile_shared_bytes(std::int32_t padded) {
  return static_cast<std::uint32_t>(2 * 2 * kSplitTokens * tile_stride(padded));
}
// Whether decode's attention over such a cache can finish a row's heads (AttentionArgs::write): beside heads
// over 128 elements in 8 bits, which become bfloat16 on their way, there are no registers for it.
PAGODA_HOST_DEVICE constexpr bool finishes_heads(std::int32_t padded, bool eights) {
  return padded <= 128 || !eights;
}
// The queries of a KV head as a left matrix; and a row's own key and value, their scales, and a head in
// floats on its way to 8 bits (attention_heads.cuh).
constexpr std::int32_t query_bytes(std::int32_t padded) { return 2 * 16 * tile_stride(padded); }
PAGODA_HOST_DEVICE constexpr std::int32_t own_line_bytes(std::int32_t padded, bool eights = false) {
  return eights ? 2 * padded + 16 + 4 * padded : 4 * padded + 16;
}
// Decode's block of splits.
constexpr std::uint32_t tile_splits_bytes(std::int32_t padded) {
  return static_cast<std::uint32_t>(split_warps(padded)) * tile_shared_bytes(padded) +
         static_cast<std::uint32_t>(query_bytes(padded));
}
// A block that walks a context (attention_walk.cuh): pieces of 16 tokens in a warp's ring, 16 KiB of them;
// from so many blocks on they keep the device busy.
constexpr std::int32_t walk_stages(std::int32_t padded) { return 512 / padded; }
constexpr std::uint32_t walk_shared_bytes(std::int32_t padded, std::int32_t group) {
  return static_cast<std::uint32_t>(2 * 16 * tile_stride(padded) * (kTileWarps * walk_stages(padded) + 1) +
                                    4 * (2 * kMaxHeadGroup + group * tile_stride(padded)) +
                                    own_line_bytes(padded));
}
// The same of caches in 8 bits: codes of a split's keys and values and 16 tokens in bfloat16 for a warp, with
// scales; codes of a split for a tile's block; and for one that walks, whose warps have these, too.
inline constexpr std::int32_t kSplitScaleBytes = 2 * 4 * kSplitTokens;
constexpr std::int32_t eight_piece_bytes(std::int32_t padded) { return 2 * 16 * tile_stride(padded); }
PAGODA_HOST_DEVICE constexpr std::uint32_t eight_shared_bytes(std::int32_t padded) {
  return static_cast<std::uint32_t>(2 * kSplitTokens * padded + 2 * 16 * (padded + 8) + kSplitScaleBytes);
}
constexpr std::uint32_t eight_splits_bytes(std::int32_t padded) {
  return static_cast<std::uint32_t>(split_warps(padded)) * eight_shared_bytes(padded) +
         static_cast<std::uint32_t>(4 * padded);
}
constexpr std::uint32_t eight_tile_bytes(std::int32_t padded) {
  return tile_shared_bytes(padded) + static_cast<std::uint32_t>(2 * kSplitTokens * padded + kSplitScaleBytes);
}
constexpr std::int32_t eight_walk_stages(std::int32_t padded) { return padded > 128 ? 2 : 8; }
constexpr std::uint32_t eight_walk_bytes(std::int32_t padded, std::int32_t group) {
  return static_cast<std::uint32_t>(16 * padded * kTileWarps * eight_walk_stages(padded) +
                                    4 * (2 * kMaxHeadGroup + group * tile_stride(padded)) +
                                    kTileWarps * (eight_piece_bytes(padded) + kSplitScaleBytes) +
                                    eight_piece_bytes(padded) + own_line_bytes(padded, true));
}
// A block that attends by warpgroups (attention_bulk.cuh), for heads of 64 and of 128: rows of a tile, and
// pieces in its ring, each the keys or the values of a split. Shared: queries, pieces, two barriers for each
// piece and one for each warpgroup.
inline constexpr std::int32_t kBulkAttentionRows = 64 * kBulkWarpgroups;
// Registers of a thread that multiplies, and of one that brings.
inline constexpr std::int32_t kAttentionRegisters = 224, kAttentionBringersRegisters = 56;
static_assert(shares_registers(kAttentionRegisters, kAttentionBringersRegisters));
// A cache of 8 bits takes a ring of fewer pieces. Behind its barriers lie as many pieces of codes as are on
// their way, and then scales of one more split than the ring has.
constexpr std::int32_t bulk_attention_stages(std::int32_t padded, bool eights = false) {
  return (eights ? 768 : 1280) / padded;
}
constexpr std::int32_t bulk_code_stages(std::int32_t padded) { return 1024 / padded; }
constexpr std::int32_t bulk_scale_stages(std::int32_t padded) {
  return bulk_attention_stages(padded, true) / 2 + 1;
}
constexpr std::uint32_t bulk_attention_bytes(std::int32_t padded, bool eights = false) {
  const std::int32_t stages = bulk_attention_stages(padded, eights),
                     codes = eights ? kSplitTokens * padded * bulk_code_stages(padded) +
                                          kSplitScaleBytes * bulk_scale_stages(padded)
                                    : 0;
  return static_cast<std::uint32_t>(2 * padded * (kBulkAttentionRows + kSplitTokens * stages) +
                                    8 * (2 * stages + kBulkWarpgroups) + codes);
}
inline constexpr std::int64_t kWalkBlocks = choices::walk_blocks;
// The block that adds up the splits of a row and KV head (attention.cuh): so many at once, as far as its
// shared memory goes. A head has their lines, and 12 bytes for each, and begins in other banks than the next.
// Blocks of the plain form have this memory for it alone.
inline constexpr std::int32_t kMostMerged = 16;
inline constexpr std::uint32_t kPlainMergeBytes = 32 * 1024;
PAGODA_HOST_DEVICE constexpr std::int32_t merged_head_floats(std::int32_t head_size, std::int32_t at_once) {
  return at_once * partial_line(head_size) + (3 * at_once + 3) / 4 * 4 + 4;
}
PAGODA_HOST_DEVICE constexpr std::uint32_t merge_shared_bytes(std::int32_t group, std::int32_t head_size,
                                                              std::int32_t at_once) {
  return static_cast<std::uint32_t>(4 * group *
                                    (merged_head_floats(head_size, at_once) + partial_line(head_size)));
}
PAGODA_HOST_DEVICE constexpr std::int32_t merged_at_once(std::uint32_t shared_bytes, std::int32_t group,
                                                         std::int32_t head_size) {
  std::int32_t at_once = kMostMerged;
  while (at_once > 1 && merge_shared_bytes(group, head_size, at_once) > shared_bytes) --at_once;
  return at_once;
}

// Pairs by expert (mixture.cuh): so many for each warp, as far as shared memory goes.
inline constexpr std::int32_t kMostGroupWarps = 16, kPairsOfGroupWarp = 64;
constexpr std::int32_t group_warps(std::int32_t pairs) {
  const std::int32_t warps = (pairs + kPairsOfGroupWarp - 1) / kPairsOfGroupWarp;
  return warps < 1 ? 1 : warps > kMostGroupWarps ? kMostGroupWarps : warps;
}
constexpr std::uint32_t group_shared_bytes(std::int32_t pairs, std::int32_t experts) {
  return static_cast<std::uint32_t>(((group_warps(pairs) + 2) * experts + 1) * 4);
}

// The product of a router (linear_router.cuh): rows of x and of the weights that a block has, floats of k in
// a stage and from a row to the next, which lie in different banks.
inline constexpr std::int32_t kRouterRows = 16, kRouterColumns = 8, kRouterDepth = 256,
                              kRouterPitch = kRouterDepth + 4, kRouterStages = 3;
inline constexpr std::uint32_t kRouterSharedBytes =
    kRouterStages * (kRouterRows + kRouterColumns) * kRouterPitch * sizeof(float);

// Shared memory for a row's choice of experts (mixture.cuh).
inline std::uint32_t route_shared_bytes(std::int32_t experts, std::int32_t groups) {
  return static_cast<std::uint32_t>(3 * experts + 2 * groups) * static_cast<std::uint32_t>(sizeof(float));
}

// A row of logits (row_select.cuh): 32 tokens a thread, or more; so many numbers are added up at once, and so
// many of a thread's tokens may be listed.
inline constexpr std::int32_t kMostSampleThreads = 1024, kSelectSums = 3, kListedOfThread = 4;
// Tokens that a row's scores may name (scores.cuh).
inline constexpr std::int32_t kMostTop = 64;
constexpr std::int32_t sample_threads(std::int32_t vocabulary) {
  const std::int32_t warps = (vocabulary + 1023) / 1024;
  return 32 * (warps < 2 ? 2 : warps > kMostSampleThreads / 32 ? kMostSampleThreads / 32 : warps);
}
constexpr std::uint32_t select_shared_bytes(std::int32_t threads) {
  return static_cast<std::uint32_t>(2 * kSelectSums * 32 * 8 + threads * kListedOfThread * 8);
}
// Neighbouring tokens of which a warp finds the best (best_of_groups): whole steps of 32, and no more groups
// than a row's block has threads.
inline constexpr std::int32_t kGroupWarps = 8;
PAGODA_HOST_DEVICE constexpr std::int32_t group_tokens(std::int32_t vocabulary) {
  return 32 * ((vocabulary + 32 * kMostSampleThreads - 1) / (32 * kMostSampleThreads));
}
PAGODA_HOST_DEVICE constexpr std::int32_t token_groups(std::int32_t vocabulary) {
  return (vocabulary + group_tokens(vocabulary) - 1) / group_tokens(vocabulary);
}
constexpr std::uint32_t sample_shared_bytes(std::int32_t threads) {
  return select_shared_bytes(threads) + static_cast<std::uint32_t>(4 * threads);
}
constexpr std::uint32_t score_shared_bytes(std::int32_t threads) {
  return select_shared_bytes(threads) + static_cast<std::uint32_t>(8 * kMostTop);
}

}  // namespace pagoda::device
