#pragma once
// Sizes shared by kernels and the code that launches them.
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

// Threads of a block for a row (rows.cuh), and of a norm with at least kWideRow elements.
inline constexpr std::int32_t kRowThreads = 128, kWideRowThreads = 512, kWideRow = 1024;
// Each thread stands for four of those. Depends on the width only: the order of the sum is that of the
// threads.
constexpr std::uint32_t norm_threads(std::int32_t width) {
  return static_cast<std::uint32_t>(width >= kWideRow ? kWideRowThreads : kRowThreads) / 4;
}

// Heads per block, one warp each, of the kernel that rotates them and writes keys and values
// (paged_cache.cuh).
inline constexpr std::int32_t kRopeWarps = 4;

inline constexpr std::int32_t kLinearTile = 16, kLinearDepth = 32;
inline constexpr std::uint32_t kLinearSharedBytes = 2 * kLinearTile * (kLinearDepth + 1) * sizeof(float);

// A product by tiles (linear_tiles.cuh): a block's rows of x and rows of the weights, the elements of k in a
// stage, the division of y's rows and columns among warps, the number of stages in shared memory, and the
// number of blocks with the same rows that share their copies of x.
struct ProductTile {
  std::int32_t rows, columns, depth, warps_of_rows, warps_of_columns, stages;
  std::int32_t cluster = 1;
};
// Their input x in bfloat16: slabs of kSlab of k, each with all rows, one after the other. Within a slab, the
// 16-byte pieces of a row are ordered as in shared memory, so that eight rows are read from different banks.
// The part of neighbouring rows in a stage is one contiguous range, or two. k is padded with zeros to a
// multiple of kSlabStep.
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
// Bound by reading the weights: each warp has its own stages, and the block rounds x (linear_few).
inline constexpr ProductTile kFewRows = {16, 8 * choices::few_warps, 128,
                                         1,  choices::few_warps,     choices::few_stages};
inline constexpr ProductTile kSeveralRows = {
    32, 32, 128, 1, 4, choices::several_stages, choices::several_cluster};
// With this many rows, blocks with few columns read as much of x as of the weights: kWideRows has more
// columns, and is used where that leaves enough blocks.
inline constexpr ProductTile kSomeRows = {64, 32, 128, 2, 2, choices::some_stages, choices::some_cluster};
inline constexpr ProductTile kWideRows = {64, 128, 64, 2, 2, choices::wide_stages};
inline constexpr ProductTile kManyRows = {128, 128, 64, 2, 2, choices::many_stages};
// Likewise by warpgroups, if the device has them (linear_bulk.cuh): blocks that share copies, one per
// processor, each with 128 rows of the weights and as many stages as fit into `bulk_kib`. kBulkClusters of
// them run at the same time and go from tile to tile.
PAGODA_HOST_DEVICE constexpr ProductTile bulk_rows(std::int32_t rows) {
  return {rows, 128, kSlab, 1, 8, choices::bulk_kib * 1024 / ((rows + 128) * kSlabRowBytes), 2};
}
inline constexpr std::int32_t kBulkWarpgroups = 2, kBulkBringers = 128,
                              kBulkThreads = 128 * kBulkWarpgroups + kBulkBringers;
// Among the copying threads: the number of threads that copy weights unchanged; then the first thread of the
// warp that copies x, and the first of the warp that signals.
inline constexpr std::int32_t kBulkCopiers = 64, kBulkSharer = 64, kBulkTeller = 96;
// Likewise for fewer rows, 32, 64 or 128, and few columns (linear_narrow.cuh), with as many stages as fit.
// Blocks of 128 rows read weights half as often as those of 64, which matters if k is large.
PAGODA_HOST_DEVICE constexpr ProductTile narrow_tile(std::int32_t columns, std::int32_t rows) {
  const std::int32_t stage = (rows + columns) * 2 * kSlabRowBytes;
  return {rows, columns, 2 * kSlab, 4, 1, choices::bulk_kib * 1024 / stage, 2};
}
inline constexpr std::int32_t kNarrowColumns[] = {32, 48, 64, 112}, kTallColumns[] = {64, 112},
                              kTallRows = 128;
PAGODA_HOST_DEVICE constexpr std::int32_t narrow_threads(std::int32_t rows) {
  return 128 * ((rows + 63) / 64) + kBulkBringers;
}
// Registers of a thread that multiplies 256 rows, and of a copying thread: more if it widens weights.
template <bool quantized>
inline constexpr std::int32_t kBulkRegisters = quantized ? 192 : 232;
template <bool quantized>
inline constexpr std::int32_t kBulkBringersRegisters = quantized ? 112 : 40;
// A block of two multiplying warpgroups and one copying warpgroup begins with equal shares. The last one must
// release the additional registers of the first two; otherwise they would wait for them forever.
constexpr bool shares_registers(std::int32_t multiplies, std::int32_t brings) {
  constexpr std::int32_t kEqual = 65536 / (3 * 128) / 8 * 8;
  return 2 * (multiplies - kEqual) <= kEqual - brings;
}
static_assert(shares_registers(kBulkRegisters<true>, kBulkBringersRegisters<true>) &&
              shares_registers(kBulkRegisters<false>, kBulkBringersRegisters<false>));
inline constexpr std::int64_t kBulkClusters = choices::bulk_clusters;
// Number of tiles of a product, which clusters of such blocks go through.
constexpr std::int64_t cluster_tiles(const ProductTile& tile, std::int32_t rows, std::int32_t n) {
  const std::int64_t columns = std::int64_t{tile.cluster} * tile.columns;
  return (std::int64_t{rows} + tile.rows - 1) / tile.rows * ((n + columns - 1) / columns);
}
// Maximum rows of a product in this form. With more rows kSeveralRows is faster, although norms and functions
// then need separate launches.
inline constexpr std::int32_t kMostFewRows = choices::few_rows;
// Bytes of x in bfloat16 that a block of kFewRows holds at once.
inline constexpr std::int32_t kFewInputBytes = choices::few_input_kib * 1024;
// They are followed by sums of warps, and a mean and a scale for each row (linear_few.cuh).
inline constexpr std::int32_t kFewSums = kWideRowThreads / 32, kFewMomentBytes = 4 * (kFewSums + 2 * 16);
// Minimum number of multiplications and of rows for which a launch that rounds x first pays off: blocks then
// read half as much of x, which matters if x is not much smaller than the weights that they read.
inline constexpr std::int64_t kFewRounded = std::int64_t{1'000'000} * choices::few_rounded;
inline constexpr std::int32_t kFewRoundedRows = 5;
// Maximum number of rows for which each block computes the norm.
inline constexpr std::int32_t kFewNorms = choices::few_norms;
// Minimum number of blocks of kManyRows and of kWideRows: fewer leave processors idle, and kSomeRows' blocks
// are smaller.
inline constexpr std::int64_t kManyBlocks = choices::many_blocks, kWideBlocks = choices::wide_blocks;

constexpr std::int32_t product_threads(const ProductTile& tile) {
  return 32 * tile.warps_of_rows * tile.warps_of_columns;
}
// True if weights with `group` bytes per 32 weights come in units of kQuantizedUnit. Quantized5K has 24
// bytes, as Quantized4 has; 25 is its substitute.
inline constexpr std::int32_t kQuantized5KGroup = 25;
PAGODA_HOST_DEVICE constexpr bool has_units(std::int32_t group) {
  return group == 20 || group == kQuantized5KGroup || group == 28;
}
PAGODA_HOST_DEVICE constexpr std::int32_t unit_pieces(std::int32_t group) { return group / 4; }
static_assert(sizeof(Quantized4K) == 16 * unit_pieces(20) &&
              sizeof(Quantized5K) == 16 * unit_pieces(kQuantized5KGroup) &&
              sizeof(Quantized6K) == 16 * unit_pieces(28));
// 8-bit floats, with a scale per row, or per kFloat8Scale of a row: their codes are swizzled; with the
// latter, a stage has an additional piece per row for the scales.
inline constexpr std::int32_t kFloat8Group = 32, kFloat8BlocksGroup = 33;
PAGODA_HOST_DEVICE constexpr bool is_float8(std::int32_t group) {
  return group == kFloat8Group || group == kFloat8BlocksGroup;
}
// 4-bit floats, with powers of two, or with scales: each row of a stage has an additional piece for them.
inline constexpr std::int32_t kFloat4Group = 17, kFloat4ScaledGroup = 18;
PAGODA_HOST_DEVICE constexpr bool is_float4(std::int32_t group) {
  return group == kFloat4Group || group == kFloat4ScaledGroup;
}
// 16-byte pieces per row of weights in a stage, if 32 weights have `group` bytes: more if a stage may begin
// within a piece. Units are copied whole.
constexpr std::int32_t product_pieces(const ProductTile& tile, std::int32_t group) {
  if (has_units(group)) return (tile.depth + kQuantizedUnit - 1) / kQuantizedUnit * unit_pieces(group);
  if (is_float8(group)) return tile.depth / 16;
  if (is_float4(group)) return tile.depth / 32 + 1;
  const std::int32_t bytes = tile.depth / 32 * group;
  return (bytes + (bytes % 16 != 0 ? 8 : 0) + 15) / 16;
}
// Bytes from a row to the next: an odd number of pieces if the group is not swizzled, so that eight rows are
// in different banks.
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
// After the stages of blocks that share copies: up to three barriers for each stage.
constexpr std::uint32_t product_shared_bytes(const ProductTile& tile, std::int32_t group) {
  return static_cast<std::uint32_t>(tile.stages *
                                    (product_stage_bytes(tile, group) + (tile.cluster > 1 ? 24 : 0)));
}
// Blocks of few rows hold at least one stage of 16 rows.
static_assert(kFewInputBytes >= 2 * kFewRows.rows * kFewRows.depth);
// Stages of 8-bit floats have as many bytes as those of bfloat16; each has two sums in parallel.
PAGODA_HOST_DEVICE constexpr ProductTile few_tile(std::int32_t group) {
  ProductTile tile = kFewRows;
  if (is_float8(group)) tile.depth *= 2;
  return tile;
}
static_assert(kFewInputBytes >= 2 * kFewRows.rows * few_tile(kFloat8Group).depth);
// Rows of x in a block, except for pairs of experts. 8-bit floats: as many as leave space for two blocks of k
// side by side (few_pairs.cuh). Otherwise half of a matrix, so that half as much of it is read.
inline constexpr std::int32_t kPairedRows = 4;
PAGODA_HOST_DEVICE constexpr std::int32_t few_block_rows(std::int32_t group) {
  return is_float8(group) ? kPairedRows : kFewRows.rows / 2;
}
// Bytes for `rows` rows of x, or for as much of them as is held at once: 16 bytes more per row than its
// elements have, so that eight rows are in different banks. With weights in bfloat16, rows are swizzled and
// get the maximum of kFewInputBytes; smaller blocks, of which a processor holds more, were not measured.
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

// Attention by tiles (attention_tiles.cuh), for heads of up to `padded` elements: 64, 128 or 256.
inline constexpr std::int32_t kTileWarps = 4;
constexpr std::int32_t tile_rows(std::int32_t padded) {
  return padded > 128 ? 32 : 64;
}  // tokens times query heads
// Warps of a decode block, each with its own split.
PAGODA_HOST_DEVICE constexpr std::int32_t split_warps(std::int32_t padded) { return 256 / padded; }
// Elements from a token to the next in shared memory: eight more than `padded`, so that eight tokens are in
// different banks.
PAGODA_HOST_DEVICE constexpr std::int32_t tile_stride(std::int32_t padded) { return padded + 8; }
// The keys and values of a split.
PAGODA_HOST_DEVICE constexpr std::uint32_t tile_shared_bytes(std::int32_t padded) {
  return static_cast<std::uint32_t>(2 * 2 * kSplitTokens * tile_stride(padded));
}
// True if decode attention over such a cache can finish a row's heads (AttentionArgs::write). There are not
// enough registers for heads over 128 elements in 8 bits, which are widened to bfloat16.
PAGODA_HOST_DEVICE constexpr bool finishes_heads(std::int32_t padded, bool eights) {
  return padded <= 128 || !eights;
}
// The queries of a KV head as a left matrix; and a row's own key and value, their scales, and a head in
// floats before it is converted to 8 bits (attention_heads.cuh).
constexpr std::int32_t query_bytes(std::int32_t padded) { return 2 * 16 * tile_stride(padded); }
PAGODA_HOST_DEVICE constexpr std::int32_t own_line_bytes(std::int32_t padded, bool eights = false) {
  return eights ? 2 * padded + 16 + 4 * padded : 4 * padded + 16;
}
// A decode block of splits.
constexpr std::uint32_t tile_splits_bytes(std::int32_t padded) {
  return static_cast<std::uint32_t>(split_warps(padded)) * tile_shared_bytes(padded) +
         static_cast<std::uint32_t>(query_bytes(padded));
}
// A block that walks a context (attention_walk.cuh): pieces of 16 tokens in a warp's ring, 16 KiB of them.
constexpr std::int32_t walk_stages(std::int32_t padded) { return 512 / padded; }
constexpr std::uint32_t walk_shared_bytes(std::int32_t padded, std::int32_t group) {
  return static_cast<std::uint32_t>(2 * 16 * tile_stride(padded) * (kTileWarps * walk_stages(padded) + 1) +
                                    4 * (2 * kMaxHeadGroup + group * tile_stride(padded)) +
                                    own_line_bytes(padded));
}
// Likewise for caches in 8 bits. Per warp: codes of a split's keys and values, 16 tokens in bfloat16, and
// scales. Then codes of a split for a block of attend_tiles; and a block that walks, whose warps also have
// these.
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
// A block of attention by warpgroups (attention_bulk.cuh), for heads of 64 and of 128: rows of a tile, and
// pieces in its ring, each the keys or the values of a split. Shared: queries, pieces, two barriers per piece
// and one per warpgroup.
inline constexpr std::int32_t kBulkAttentionRows = 64 * kBulkWarpgroups;
// Registers of a thread that multiplies, and of one that copies.
inline constexpr std::int32_t kAttentionRegisters = 224, kAttentionBringersRegisters = 56;
static_assert(shares_registers(kAttentionRegisters, kAttentionBringersRegisters));
// A cache in 8 bits has a ring of fewer pieces. Its barriers are followed by the pieces of codes that are in
// flight, and then by the scales of one split more than the ring holds.
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
inline constexpr std::int64_t kWalkBlocks = choices::walk_blocks;  // the minimum that keeps the device busy
// The block that adds the splits of a row and KV head (attention.cuh): the number added at once, limited by
// its shared memory. A head has the lines of these splits, and 12 bytes for each, and begins in other banks
// than the next head. Blocks of the plain form have this memory for this purpose only.
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

// Pairs by expert (mixture.cuh): pairs per warp, limited by shared memory.
inline constexpr std::int32_t kMostGroupWarps = 16, kPairsOfGroupWarp = 64;
constexpr std::int32_t group_warps(std::int32_t pairs) {
  const std::int32_t warps = (pairs + kPairsOfGroupWarp - 1) / kPairsOfGroupWarp;
  return warps < 1 ? 1 : warps > kMostGroupWarps ? kMostGroupWarps : warps;
}
constexpr std::uint32_t group_shared_bytes(std::int32_t pairs, std::int32_t experts) {
  return static_cast<std::uint32_t>(((group_warps(pairs) + 2) * experts + 1) * 4);
}

// The product of a router (linear_router.cuh): a block's rows of x and of the weights, floats of k in a
// stage, and floats from a row to the next (in different banks).
inline constexpr std::int32_t kRouterRows = 16, kRouterColumns = 8, kRouterDepth = 256,
                              kRouterPitch = kRouterDepth + 4, kRouterStages = 3;
inline constexpr std::uint32_t kRouterSharedBytes =
    kRouterStages * (kRouterRows + kRouterColumns) * kRouterPitch * sizeof(float);

// Shared memory for the choice of a row's experts (mixture.cuh).
inline std::uint32_t route_shared_bytes(std::int32_t experts, std::int32_t groups) {
  return static_cast<std::uint32_t>(3 * experts + 2 * groups) * static_cast<std::uint32_t>(sizeof(float));
}

// A row of logits (row_select.cuh): at least 32 tokens per thread; the number of values added at once, and
// the maximum number of listed tokens per thread.
inline constexpr std::int32_t kMostSampleThreads = 1024, kSelectSums = 3, kListedOfThread = 4;
// Maximum number of top tokens in a row's scores (scores.cuh).
inline constexpr std::int32_t kMostTop = 64;
constexpr std::int32_t sample_threads(std::int32_t vocabulary) {
  const std::int32_t warps = (vocabulary + 1023) / 1024;
  return 32 * (warps < 2 ? 2 : warps > kMostSampleThreads / 32 ? kMostSampleThreads / 32 : warps);
}
constexpr std::uint32_t select_shared_bytes(std::int32_t threads) {
  return static_cast<std::uint32_t>(2 * kSelectSums * 32 * 8 + threads * kListedOfThread * 8);
}
// Neighbouring tokens whose best a warp finds (best_of_groups): whole steps of 32, and at most as many groups
// as a row's block has threads.
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
