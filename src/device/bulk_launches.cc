// Launches of products by warpgroups (kernels/linear_bulk.cuh).
#include <algorithm>
#include <limits>
#include <utility>

#include "device/kernel_launches.h"
#include "device/kernels/launch_shapes.h"

namespace pagoda::device {
namespace {

constexpr bool fits_cluster(std::uint32_t shared_bytes) { return shared_bytes <= kMaxClusterSharedBytes; }
static_assert(fits_cluster(product_shared_bytes(bulk_rows(64), 64)) &&
              fits_cluster(product_shared_bytes(bulk_rows(128), 64)) &&
              fits_cluster(product_shared_bytes(bulk_rows(256), 64)) &&
              fits_cluster(bulk_attention_bytes(64)) && fits_cluster(bulk_attention_bytes(128)));

std::uint32_t u32(std::int64_t value) { return static_cast<std::uint32_t>(value); }

// Tiles of clusters of a product by warpgroups, of so many rows each.
std::int64_t bulk_clusters(std::int32_t of_tile, std::int32_t rows, std::int32_t n) {
  const ProductTile tile = bulk_rows(of_tile);
  const std::int64_t of_rows = (std::int64_t{rows} + tile.rows - 1) / tile.rows;
  const std::int64_t of_columns = (std::int64_t{n} + tile.columns - 1) / tile.columns;
  return of_rows * ((of_columns + tile.cluster - 1) / tile.cluster);
}

// Forms follow each other: of 64 rows, of 128 and of 256.
std::int32_t which(KernelLaunches::ProductForm form) {
  return static_cast<std::int32_t>(form) - static_cast<std::int32_t>(KernelLaunches::ProductForm::bulk_64);
}
KernelId of_form(KernelLaunches::ProductForm form, KernelId of_64) {
  return static_cast<KernelId>(static_cast<std::int32_t>(of_64) + which(form));
}

LaunchShape bulk_shape(KernelLaunches::ProductForm form, std::int32_t rows, std::int32_t n) {
  const ProductTile tile = bulk_rows(64 << which(form));
  const std::int64_t clusters = std::min(bulk_clusters(tile.rows, rows, n), kBulkClusters);
  return {.grid = {1, u32(clusters * tile.cluster)},
          .block = {u32(kBulkThreads)},
          .shared_bytes = product_shared_bytes(tile, 64),
          .cluster = u32(tile.cluster)};
}

}  // namespace

// The one whose clusters have the least to do: of fewer rows, a stage is bound by what is copied, and takes
// more than its share of the time of others.
KernelLaunches::ProductForm KernelLaunches::bulk_form(std::int32_t rows, std::int32_t n) {
  constexpr std::pair<std::int32_t, std::int64_t> kRowsAndTime[] = {{256, 10}, {128, 7}, {64, 6}};
  ProductForm best = ProductForm::bulk_256;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (std::size_t i = 0; i < std::size(kRowsAndTime); ++i) {
    const auto [of_tile, time] = kRowsAndTime[i];
    const std::int64_t all = time * ((bulk_clusters(of_tile, rows, n) + kBulkClusters - 1) / kBulkClusters);
    if (all >= least) continue;
    least = all;
    best = static_cast<ProductForm>(static_cast<std::size_t>(ProductForm::bulk_256) - i);
  }
  return best;
}

bool KernelLaunches::takes_bulk(Element weight, std::int32_t rows) const {
  return choices::bulk_rows > 0 && rows >= std::max(choices::bulk_rows, kSomeRows.rows + 1) &&
         weight == Element::bf16 && device_.has_warpgroups();
}

Status KernelLaunches::linear_bulk(const LinearArgs& args, ProductForm form) {
  return put(of_form(form, KernelId::linear_bulk_64_bf16), bulk_shape(form, args.rows, args.n), args);
}

bool KernelLaunches::takes_gated(Element weight, Function function, std::int32_t rows) const {
  return choices::bulk_gated > 0 && function == Function::silu && takes_bulk(weight, rows);
}

Status KernelLaunches::linear_gated(const GatedLinearArgs& args) {
  return linear_gated(args, bulk_form(args.product.rows, 2 * args.product.n));
}

// The launch of a plain product with as many rows of weights, whose clusters have half of their columns each.
Status KernelLaunches::linear_gated(const GatedLinearArgs& args, ProductForm form) {
  CHECK(device_.has_warpgroups());
  return put(of_form(form, KernelId::linear_bulk_gated_64_bf16),
             bulk_shape(form, args.product.rows, 2 * args.product.n), args);
}

}  // namespace pagoda::device
