#include "device/kernel_launches.h"

#include <algorithm>
#include <optional>

#include "device/kernels/launch_shapes.h"
#include "device/launch_sizes.h"

namespace pagoda::device {
namespace {

static_assert(fits(few_shared_bytes(64, kFewRows.rows, 1 << 20)) &&
              fits(product_shared_bytes(kSeveralRows, 64)) && fits(product_shared_bytes(kSomeRows, 64)) &&
              fits(product_shared_bytes(kWideRows, 64)) && fits(product_shared_bytes(kManyRows, 64)));

// The kernel for a matrix's element type: in kernels.def they are in the order of the elements, without i8.
KernelId for_weights(Element weight, KernelId of_f32) {
  CHECK(weight != Element::i8);
  const std::int32_t which = static_cast<std::int32_t>(weight) - (weight > Element::i8 ? 1 : 0);
  return static_cast<KernelId>(static_cast<std::int32_t>(of_f32) + which);
}

Dim3 blocks_of(const ProductTile& tile, std::int32_t rows, std::int32_t n) {
  return {u32((rows + tile.rows - 1) / tile.rows), u32((n + tile.columns - 1) / tile.columns)};
}

// The kernel by tiles for a matrix's element type: as in for_weights, from bf16 on.
constexpr std::int32_t kTileElements = 10;
std::int32_t tile_element(Element weight) {
  CHECK(weight != Element::f32);
  return static_cast<std::int32_t>(for_weights(weight, KernelId{})) - 1;
}
KernelId for_tiles(Element weight, KernelId of_bf16) {
  return static_cast<KernelId>(static_cast<std::int32_t>(of_bf16) + tile_element(weight));
}

// Bytes of 32 weights of a row, or a substitute (launch_shapes.h).
std::int32_t group_bytes(Element weight) {
  if (weight == Element::fp8) return kFloat8Group;
  if (weight == Element::fp8_blocks) return kFloat8BlocksGroup;
  if (weight == Element::mxfp4) return kFloat4Group;
  if (weight == Element::nvfp4) return kFloat4ScaledGroup;
  if (weight == Element::q5_k) return kQuantized5KGroup;
  return static_cast<std::int32_t>(KernelLaunches::row_bytes(weight, kQuantizedUnit) / 4);
}

// Blocks of rows of a product of few rows.
std::uint32_t few_blocks(std::int32_t group, std::int32_t rows) {
  const std::int32_t each = few_block_rows(group);
  return u32((rows + each - 1) / each);
}

// Tiles load and store several words at once.
bool aligned(const void* x, const void* weight, const float* y) {
  const auto rest = [](const void* address) { return reinterpret_cast<std::uintptr_t>(address) % 16; };
  return rest(x) == 0 && rest(weight) == 0 && rest(y) % (2 * sizeof(float)) == 0;
}

// Eight elements per thread.
LaunchShape shared_rows(std::int64_t rows, std::int64_t width) {
  const std::int64_t blocks = std::clamp<std::int64_t>(width / (8 * kRowThreads), 1, 65'535);
  return {.grid = {u32(rows), u32(blocks)}, .block = {kRowThreads}};
}

// Rows of logits, one block each.
LaunchShape select_rows(std::int64_t rows, std::int32_t vocabulary) {
  CHECK(KernelLaunches::supports_vocabulary(vocabulary));
  const std::int32_t threads = sample_threads(vocabulary);
  return {.grid = {u32(rows)}, .block = {u32(threads)}, .shared_bytes = select_shared_bytes(threads)};
}

// The launch shape of a norm.
LaunchShape whole_rows(std::int64_t rows, std::int32_t width) {
  const std::uint32_t threads = norm_threads(width);
  return {.grid = {u32(rows)}, .block = {threads}, .shared_bytes = threads / 8 * u32(sizeof(float))};
}

}  // namespace

std::span<const KernelLaunches::Choice> KernelLaunches::choices() {
  static constexpr Choice kAll[] = {
#define PAGODA_CHOICE(name, value) {#name, device::choices::name},
#include "device/kernels/choices.def"
#undef PAGODA_CHOICE
  };
  return kAll;
}

Status KernelLaunches::embedding(Element table, const EmbeddingArgs& args, std::int64_t rows) {
  return put(for_weights(table, KernelId::embedding_f32), shared_rows(rows, args.width), args);
}

Status KernelLaunches::rms_norm(const NormArgs& args, std::int64_t rows) {
  return put(KernelId::rms_norm, whole_rows(rows, args.width), args);
}

Status KernelLaunches::layer_norm(const NormArgs& args, std::int64_t rows) {
  return put(KernelId::layer_norm, whole_rows(rows, args.width), args);
}

Status KernelLaunches::add_rows(const AddRowsArgs& args, std::int64_t rows) {
  return put(KernelId::add_rows, shared_rows(rows, args.width), args);
}

Status KernelLaunches::softcap(const SoftcapArgs& args, std::int64_t rows) {
  return put(KernelId::softcap, shared_rows(rows, args.width), args);
}

Status KernelLaunches::gather_rows(const GatherRowsArgs& args, std::int64_t rows) {
  return put(KernelId::gather_rows, shared_rows(rows, args.width), args);
}

Status KernelLaunches::round_rows(const RoundRowsArgs& args, std::int64_t rows) {
  return put(KernelId::round_rows, shared_rows(rows, args.width), args);
}

Status KernelLaunches::activate(const ActivateArgs& args, std::int64_t rows) {
  return put(KernelId::activate, shared_rows(rows, args.width), args);
}

std::int64_t KernelLaunches::row_bytes(Element weight, std::int64_t k) {
  switch (weight) {
    case Element::f32:
      return 4 * k;
    case Element::bf16:
      return 2 * k;
    case Element::i8:
      return k;
    case Element::q4:
      return k / kQuantizedGroup * std::int64_t{sizeof(Quantized4)};
    case Element::q8:
      return k / kQuantizedGroup * std::int64_t{sizeof(Quantized8)};
    case Element::q4_k:
      return k / kQuantizedUnit * std::int64_t{sizeof(Quantized4K)};
    case Element::q5_k:
      return k / kQuantizedUnit * std::int64_t{sizeof(Quantized5K)};
    case Element::q6_k:
      return k / kQuantizedUnit * std::int64_t{sizeof(Quantized6K)};
    case Element::fp8:
    case Element::fp8_blocks:
      return float8_row_bytes(static_cast<std::int32_t>(k), weight == Element::fp8_blocks);
    case Element::mxfp4:
      return float4_row_bytes(static_cast<std::int32_t>(k));
    case Element::nvfp4:
      return float4_scaled_row_bytes(static_cast<std::int32_t>(k));
  }
  return 0;
}

Status KernelLaunches::linear(Element weight, LinearArgs args) {
  if (args.rows == 0) return ok_status();
  if (args.stride == 0) args.stride = args.n;
  // The same bits, but faster.
  if (weight == Element::f32 && args.k % 4 == 0 && aligned(args.x, args.weight, nullptr))
    return put(KernelId::linear_router,
               {u32((args.n + kRouterColumns - 1) / kRouterColumns),
                u32((args.rows + kRouterRows - 1) / kRouterRows)},
               {u32(kRouterRows * kRouterColumns)}, kRouterSharedBytes, args);
  const KernelId id = for_weights(weight, KernelId::linear_f32);
  const auto tiles = [](std::int32_t size) { return u32((size + kLinearTile - 1) / kLinearTile); };
  return put(id, {tiles(args.n), tiles(args.rows)}, {kLinearTile, kLinearTile}, kLinearSharedBytes, args);
}

KernelLaunches::ProductForm KernelLaunches::product_form(std::int32_t rows, std::int32_t n) {
  if (rows <= kMostFewRows) return ProductForm::few;
  if (rows <= kSeveralRows.rows) return ProductForm::several;
  const auto blocks = [&](const ProductTile& tile) {
    const Dim3 grid = blocks_of(tile, rows, n);
    return std::int64_t{grid.x} * grid.y;
  };
  if (rows > kSomeRows.rows && blocks(kManyRows) >= kManyBlocks) return ProductForm::many;
  return blocks(kWideRows) >= kWideBlocks ? ProductForm::wide : ProductForm::some;
}

Status KernelLaunches::linear_tiles(Element weight, const LinearArgs& args) {
  return linear_tiles(weight, args,
                      warpgroup_form(weight, args.rows, args.n).value_or(product_form(args.rows, args.n)));
}

Status KernelLaunches::linear_tiles(Element weight, LinearArgs args, ProductForm form) {
  CHECK(supports_product_tiles(weight, args.k));
  if (args.rows == 0) return ok_status();
  if (args.stride == 0) args.stride = args.n;
  CHECK(aligned(args.x, args.weight, nullptr));
  if (weight >= Element::fp8 && form == ProductForm::many) form = ProductForm::wide;
  const ProductTile& tile = form == ProductForm::few       ? kFewRows
                            : form == ProductForm::several ? kSeveralRows
                            : form == ProductForm::some    ? kSomeRows
                            : form == ProductForm::wide    ? kWideRows
                                                           : kManyRows;
  const bool few = form == ProductForm::few;
  if (few) PAGODA_RETURN_IF_ERROR(round_few(args, args.n));
  if (!few) {
    CHECK(args.rounded != nullptr);
    if (args.x != nullptr)
      PAGODA_RETURN_IF_ERROR(
          round_rows({.x = args.x, .out = args.rounded, .width = args.k, .slab_rows = args.rows}, args.rows));
  }
  if (form >= ProductForm::bulk_64) {
    CHECK(device_.has_warpgroups());
    return linear_warpgroups(weight, args, form);
  }
  // The forms are consecutive in kernels.def, each with kTileElements kernels; the last one lacks those from
  // fp8 on.
  const auto of_form = static_cast<KernelId>(static_cast<std::int32_t>(KernelId::linear_few_bf16) +
                                             kTileElements * static_cast<std::int32_t>(form));
  const KernelId id = for_tiles(weight, of_form);
  const std::int32_t group = group_bytes(weight);
  LaunchShape shape = {.grid = blocks_of(tile, args.rows, args.n), .block = {u32(product_threads(tile))}};
  if (few) {
    shape.grid.x = few_blocks(group, args.rows);
    shape.shared_bytes = few_shared_bytes(group, std::min(args.rows, few_block_rows(group)), args.k);
    return put(id, shape, FewLinearArgs{.product = args, .norm = {}, .output = {}});
  }
  shape.shared_bytes = product_shared_bytes(tile, group);
  if (device_.has_clusters()) shape.cluster = u32(tile.cluster);
  if (shape.cluster > 1) shape.block.x += kWarp;  // which copies x
  // The last blocks may have no columns, and still copy their part of x.
  shape.grid.y = (shape.grid.y + shape.cluster - 1) / shape.cluster * shape.cluster;
  return put(id, shape, args);
}

std::int64_t KernelLaunches::rounded_elements(std::int64_t rows, std::int64_t k) {
  return slab_elements(rows, static_cast<std::int32_t>(k));
}

std::int32_t KernelLaunches::few_rows() { return kMostFewRows; }
std::int32_t KernelLaunches::few_norms() { return kFewNorms; }

Status KernelLaunches::round_few(LinearArgs& args, std::int32_t columns) {
  if (args.x == nullptr) return ok_status();
  if (args.rows < kFewRoundedRows || std::int64_t{args.rows} * columns * args.k < kFewRounded)
    args.rounded = nullptr;
  if (args.rounded == nullptr) return ok_status();
  return round_rows({.x = args.x, .out = args.rounded, .width = args.k}, args.rows);
}

Status KernelLaunches::linear_few(std::span<const Matrix> matrices, FewLinearArgs args) {
  LinearArgs& product = args.product;
  if (product.rows == 0) return ok_status();
  const bool gated = args.output.is_there != 0 && args.output.gated != 0;
  CHECK(!matrices.empty() && matrices.size() <= kMostParts && product.rows <= kFewRows.rows);
  CHECK(!gated || matrices.size() == 1);
  CHECK(args.output.is_there == 0 || product.accumulate == 0);
  CHECK(args.norm.kind == InputNorm::Kind::none || product.rows <= kFewNorms);
  CHECK(aligned(args.norm.weight, args.norm.bias, nullptr));
  LinearPartsArgs parts = {.all = {}, .parts = {}, .count = static_cast<std::int32_t>(matrices.size())};
  std::int32_t columns = 0, tiles = 0;
  std::uint32_t shared = 0;
  const std::int32_t of_tile = gated ? kFewRows.columns / 2 : kFewRows.columns;
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    const Matrix& matrix = matrices[i];
    CHECK(supports_product_tiles(matrix.element, product.k) && aligned(product.x, matrix.weight, nullptr));
    CHECK(matrices.size() == 1 || shares_launches(matrix.element));
    parts.parts[i] = {.weight = matrix.weight,
                      .bias = matrix.bias,
                      .n = matrix.n,
                      .tile_element = tile_element(matrix.element),
                      .first_tile = tiles,
                      .first_column = columns};
    columns += matrix.n;
    tiles += (matrix.n + of_tile - 1) / of_tile;
    shared = std::max(shared, few_shared_bytes(group_bytes(matrix.element), product.rows, product.k));
  }
  if (product.stride == 0) product.stride = columns;
  if (args.norm.kind != InputNorm::Kind::none) product.rounded = nullptr;
  PAGODA_RETURN_IF_ERROR(round_few(product, gated ? 2 * columns : columns));
  // Types that share a launch have equal numbers of rows per block.
  const Dim3 grid = {few_blocks(group_bytes(matrices[0].element), product.rows), u32(tiles)},
             block = {u32(product_threads(kFewRows))};
  if (matrices.size() > 1) {
    parts.all = args;
    return put(KernelId::linear_few_parts, grid, block, shared, parts);
  }
  product.weight = matrices[0].weight;
  product.bias = matrices[0].bias;
  product.n = matrices[0].n;
  return put(for_tiles(matrices[0].element, KernelId::linear_few_bf16), grid, block, shared, args);
}

Status KernelLaunches::route(const RouteArgs& args, std::int64_t rows) {
  return put(KernelId::route, {u32(rows)}, {kWarp}, route_shared_bytes(args.experts, args.groups), args);
}

Status KernelLaunches::group_pairs(const GroupPairsArgs& args) {
  if (args.pairs == 0) return ok_status();
  return put(KernelId::group_pairs, {1}, {kWarp * u32(group_warps(args.pairs))},
             group_shared_bytes(args.pairs, args.experts), args);
}

Status KernelLaunches::route_and_group(const RouteArgs& args, std::int64_t rows) {
  if (rows == 1) return route(args, rows);
  RouteArgs many = args;
  many.slots = nullptr;
  PAGODA_RETURN_IF_ERROR(route(many, rows));
  return group_pairs({.chosen = args.chosen,
                      .slots = args.slots,
                      .tiles = args.tiles,
                      .pairs = static_cast<std::int32_t>(rows * args.per_token),
                      .experts = args.experts});
}

Status KernelLaunches::grouped_linear(Element weight, const GroupedLinearArgs& args) {
  if (args.pairs == 0) return ok_status();
  const KernelId id = for_weights(weight, KernelId::grouped_linear_f32);
  const auto tiles = [](std::int32_t size) { return u32((size + kLinearTile - 1) / kLinearTile); };
  static_assert(kLinearTile == kPairsOfTile);
  return put(id, {tiles(args.n), u32(most_tiles(args.pairs, args.experts))}, {kLinearTile, kLinearTile},
             kLinearSharedBytes, args);
}

Status KernelLaunches::grouped_tiles(Element weight, const GroupedLinearArgs& args) {
  CHECK(supports_product_tiles(weight, args.k));
  if (args.pairs == 0) return ok_status();
  CHECK(aligned(args.x, args.weight, args.n % 2 == 0 ? args.y : nullptr));
  Dim3 grid = blocks_of(kFewRows, args.pairs, args.n);
  grid.x = u32(most_tiles(args.pairs, args.experts));
  return put(for_tiles(weight, KernelId::grouped_tiles_bf16), grid, {u32(product_threads(kFewRows))},
             few_shared_bytes(group_bytes(weight), kFewRows.rows, args.k), args);
}

Status KernelLaunches::grouped_float8(const GroupedLinearArgs& args) {
  CHECK(supports_product_tiles(Element::fp8_blocks, args.k));
  if (args.pairs == 0) return ok_status();
  CHECK(aligned(args.codes, args.weight, args.n % 2 == 0 ? args.y : nullptr));
  Dim3 grid = blocks_of(kFewRows, args.pairs, args.n);
  grid.x = u32(most_tiles(args.pairs, args.experts));
  return put(KernelId::grouped_float8, grid, {u32(product_threads(kFewRows))},
             few_shared_bytes(kFloat8BlocksGroup, kFewRows.rows, args.k), args);
}

Status KernelLaunches::combine(const CombineArgs& args, std::int64_t rows) {
  return put(KernelId::combine, {u32(rows)}, {kRowThreads}, 0, args);
}

Status KernelLaunches::copy_blocks(const CopyBlocksArgs& args, std::int64_t pairs) {
  CHECK(args.block_bytes % 8 == 0);
  // Each thread copies 64 bytes or more, and a pair has at most 64 blocks of threads.
  const std::int64_t share = std::clamp<std::int64_t>(args.block_bytes / (64 * kRowThreads), 1, 64);
  return put(KernelId::copy_blocks, {u32(pairs), u32(share)}, {kRowThreads}, 0, args);
}

Status KernelLaunches::edit_logits(const EditLogitsArgs& args, std::int64_t rows) {
  return put(KernelId::edit_logits, select_rows(rows, args.vocabulary), args);
}

Status KernelLaunches::sample_rows(const SampleRowsArgs& args, std::int64_t rows) {
  LaunchShape shape = select_rows(rows, args.vocabulary);
  const std::int32_t groups = token_groups(args.vocabulary);
  CHECK(groups <= static_cast<std::int32_t>(shape.block.x));
  PAGODA_RETURN_IF_ERROR(put(KernelId::best_of_groups,
                             {u32(rows), u32((groups + kGroupWarps - 1) / kGroupWarps)},
                             {kWarp * kGroupWarps}, 0, args));
  shape.shared_bytes = sample_shared_bytes(static_cast<std::int32_t>(shape.block.x));
  return put(KernelId::sample_rows, shape, args);
}

Status KernelLaunches::score_rows(const ScoreRowsArgs& args, std::int64_t rows) {
  LaunchShape shape = select_rows(rows, args.vocabulary);
  shape.shared_bytes = score_shared_bytes(static_cast<std::int32_t>(shape.block.x));
  return put(KernelId::score_rows, shape, args);
}

Status KernelLaunches::fill_in_tokens(const FillInTokensArgs& args) {
  return put(KernelId::fill_in_tokens, {u32((args.count + kRowThreads - 1) / kRowThreads)}, {kRowThreads}, 0,
             args);
}

Status KernelLaunches::count_tokens(const CountTokensArgs& args, std::int64_t rows) {
  return put(KernelId::count_tokens, {u32(rows)}, {kRowThreads}, 0, args);
}

}  // namespace pagoda::device
