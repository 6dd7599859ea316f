// Launches of products of 8-bit floats by 8-bit floats (kernels/linear_float8.cuh) and of the kernels that
// write their inputs, and the choice of the form for a size.
#include <algorithm>

#include "device/kernel_launches.h"
#include "device/kernels/float8_args.h"

namespace pagoda::device {
namespace {

using Float8Form = KernelLaunches::Float8Form;

struct Shape {
  std::int32_t columns, rows;
};
constexpr Shape kShapes[KernelLaunches::kFloat8Forms] = {{32, 64},  {48, 64},   {64, 64},
                                                         {112, 64}, {128, 128}, {192, 128}};
constexpr ProductTile float8_tile_of(Float8Form form, bool blocks) {
  const Shape& shape = kShapes[static_cast<std::size_t>(form)];
  return float8_tile(shape.columns, shape.rows, blocks);
}

// A limit of choices.def.
static_assert(std::ranges::all_of(kShapes, [](const Shape& shape) {
  return std::ranges::all_of(std::initializer_list<bool>{false, true}, [&](bool blocks) {
    const ProductTile tile = float8_tile(shape.columns, shape.rows, blocks);
    return float8_shared_bytes(tile, blocks) <= kMaxClusterSharedBytes && tile.stages > 2;
  });
}));

// The lines of both matrices must be copied into shared memory; with many lines, tensor cores matter, too.
std::int64_t float8_time_of(Float8Form form, std::int32_t rows, std::int32_t n) {
  const ProductTile tile = float8_tile_of(form, false);
  const std::int64_t stage = tile.rows <= 64 ? tile.rows + tile.columns : (tile.columns <= 128 ? 200 : 270);
  return stage * ((cluster_tiles(tile, rows, n) + kBulkClusters - 1) / kBulkClusters);
}

// Threads for a row whose scale needs all of it: depends on the width only.
std::uint32_t threads_of(std::int32_t width) {
  return static_cast<std::uint32_t>(
      std::clamp((width + 4 * kFloat8Scale - 1) / (4 * kFloat8Scale) * 32, 32, 512));
}

LaunchShape rows_of(const QuantizeRowsArgs& args, std::uint32_t threads) {
  return {.grid = {static_cast<std::uint32_t>(args.rows)},
          .block = {threads},
          .shared_bytes = static_cast<std::uint32_t>((threads / 8 + threads / 32) * sizeof(float))};
}

}  // namespace

Float8Form KernelLaunches::float8_form(std::int32_t rows, std::int32_t n) {
  Float8Form best = Float8Form::by_192_128;
  for (std::size_t i = kFloat8Forms - 1; i-- > 0;)
    if (const Float8Form form = static_cast<Float8Form>(i);
        float8_time_of(form, rows, n) < float8_time_of(best, rows, n))
      best = form;
  return best;
}

Status KernelLaunches::linear_float8(Element weight, const LinearArgs& args) {
  return linear_float8(weight, args, float8_form(args.rows, args.n));
}

Status KernelLaunches::linear_float8(Element weight, LinearArgs args, Float8Form form) {
  CHECK(device_.has_warpgroups() && is_float8(weight) && supports_product_tiles(weight, args.k));
  if (args.rows == 0) return ok_status();
  if (args.stride == 0) args.stride = args.n;
  const bool blocks = weight == Element::fp8_blocks;
  const ProductTile tile = float8_tile_of(form, blocks);
  const std::int64_t clusters = std::min(cluster_tiles(tile, args.rows, args.n), kBulkClusters);
  const KernelId first = blocks ? KernelId::linear_float8_blocks_32_64 : KernelId::linear_float8_32_64;
  return put(static_cast<KernelId>(static_cast<std::int32_t>(first) + static_cast<std::int32_t>(form)),
             {.grid = {1, static_cast<std::uint32_t>(clusters * tile.cluster)},
              .block = {static_cast<std::uint32_t>(float8_threads(tile))},
              .shared_bytes = float8_shared_bytes(tile, blocks),
              .cluster = static_cast<std::uint32_t>(tile.cluster)},
             args);
}

Status KernelLaunches::quantize_rows(const QuantizeRowsArgs& args) {
  return put(KernelId::quantize_rows, rows_of(args, threads_of(args.width)), args);
}

// The order of its sums is that of rms_norm and layer_norm.
Status KernelLaunches::quantize_norm(const QuantizeRowsArgs& args) {
  return put(KernelId::quantize_norm, rows_of(args, norm_threads(args.width)), args);
}

Status KernelLaunches::quantize_function(const QuantizeRowsArgs& args) {
  return put(KernelId::quantize_function, rows_of(args, threads_of(args.width)), args);
}

std::int64_t KernelLaunches::float8_input_bytes(Element weight, std::int64_t rows, std::int64_t k) {
  return float8_bytes(rows, static_cast<std::int32_t>(k), weight == Element::fp8_blocks);
}

std::int64_t KernelLaunches::float8_wide_bytes(std::int64_t rows, std::int64_t k, bool blocks) {
  return device::float8_wide_bytes(rows, static_cast<std::int32_t>(k), blocks);
}

}  // namespace pagoda::device
