// Launches of products by warpgroups (kernels/linear_bulk.cuh, kernels/linear_narrow.cuh), and the choice of
// the form for a size.
#include <algorithm>
#include <iterator>
#include <optional>

#include "device/kernel_launches.h"
#include "device/kernels/launch_shapes.h"

namespace pagoda::device {
namespace {

using Form = KernelLaunches::ProductForm;

// A limit of choices.def.
constexpr bool fits_bulk(const ProductTile& tile) {
  return product_shared_bytes(tile, 64) <= kMaxClusterSharedBytes && tile.stages > 2;
}
static_assert(bulk_attention_bytes(64) <= kMaxClusterSharedBytes &&
              bulk_attention_bytes(128) <= kMaxClusterSharedBytes &&
              bulk_attention_bytes(64, true) <= kMaxClusterSharedBytes &&
              bulk_attention_bytes(128, true) <= kMaxClusterSharedBytes);
static_assert(fits_bulk(bulk_rows(64)) && fits_bulk(bulk_rows(128)) && fits_bulk(bulk_rows(256)));
static_assert(std::ranges::all_of(kNarrowColumns, [](std::int32_t columns) {
  return fits_bulk(narrow_tile(columns, 32)) && fits_bulk(narrow_tile(columns, 64));
}));
static_assert(std::ranges::all_of(kTallColumns, [](std::int32_t columns) {
  return fits_bulk(narrow_tile(columns, kTallRows));
}));

constexpr std::int32_t behind(Form form, Form first) {
  return static_cast<std::int32_t>(form) - static_cast<std::int32_t>(first);
}
constexpr Form next(Form first, std::int32_t by) {
  return static_cast<Form>(static_cast<std::int32_t>(first) + by);
}

ProductTile tile_of(Form form, std::int32_t rows) {
  if (form <= Form::bulk_256) return bulk_rows(64 << behind(form, Form::bulk_64));
  if (form >= Form::tall_64) return narrow_tile(kTallColumns[behind(form, Form::tall_64)], kTallRows);
  return narrow_tile(kNarrowColumns[behind(form, Form::narrow_32)], rows <= 32 ? 32 : 64);
}

// A stage is bound by the copies of both matrices' lines into shared memory; one of 256 rows takes somewhat
// longer. 128 rows by 64 columns are as many lines as the reverse, but read weights half as often.
std::int64_t time_of(Form form, const ProductTile& tile) {
  constexpr std::int64_t kBulk[] = {190, 260, 400}, kTall[] = {185, 250};
  if (form >= Form::tall_64) return kTall[behind(form, Form::tall_64)];
  return form <= Form::bulk_256 ? kBulk[behind(form, Form::bulk_64)] : tile.rows + tile.columns;
}

std::int64_t time_of(Form form, std::int32_t rows, std::int32_t n) {
  const ProductTile tile = tile_of(form, rows);
  return time_of(form, tile) * ((cluster_tiles(tile, rows, n) + kBulkClusters - 1) / kBulkClusters);
}

// The form whose clusters have the least to do.
Form fastest(Form first, Form last, std::int32_t rows, std::int32_t n) {
  Form best = last;
  for (std::int32_t i = behind(last, first); i-- > 0;)
    if (time_of(next(first, i), rows, n) < time_of(best, rows, n)) best = next(first, i);
  return best;
}

KernelId kernel_after(KernelId first, std::int32_t by) {
  return static_cast<KernelId>(static_cast<std::int32_t>(first) + by);
}

LaunchShape shape_of(Form form, std::int32_t rows, std::int32_t n) {
  const ProductTile tile = tile_of(form, rows);
  const std::int64_t clusters = std::min(cluster_tiles(tile, rows, n), kBulkClusters);
  return {.grid = {1, static_cast<std::uint32_t>(clusters * tile.cluster)},
          .block = {static_cast<std::uint32_t>(form <= Form::bulk_256 ? kBulkThreads
                                                                      : narrow_threads(tile.rows))},
          .shared_bytes = product_shared_bytes(tile, 64),
          .cluster = static_cast<std::uint32_t>(tile.cluster)};
}

// The minimum number of rows; 0: never. fp8 has forms of its own, and 4-bit floats have none.
std::int32_t least_bulk_rows(Element weight) {
  if (weight >= Element::fp8) return 0;
  return weight == Element::bf16 ? choices::bulk_rows : choices::widened_rows;
}
bool is_bulk(Element weight, std::int64_t rows) {
  const std::int32_t least = least_bulk_rows(weight);
  return least > 0 && rows >= std::max(least, kSomeRows.rows + 1);
}
bool is_narrow(Element weight, std::int64_t rows) {
  return weight == Element::bf16 && choices::narrow_rows > 0 &&
         rows >= std::max(choices::narrow_rows, kMostFewRows + 1);
}

}  // namespace

Form KernelLaunches::bulk_form(std::int32_t rows, std::int32_t n) {
  return fastest(Form::bulk_64, Form::bulk_256, rows, n);
}

Form KernelLaunches::narrow_form(std::int32_t rows, std::int32_t n) {
  return fastest(Form::narrow_32, Form::narrow_112, rows, n);
}

WarpgroupForms KernelLaunches::forms_up_to(std::int64_t rows) {
  const bool bulk = is_bulk(Element::bf16, rows);
  return {.bulk = bulk || is_bulk(Element::q4, rows),
          .narrow = is_narrow(Element::bf16, rows),
          .gated = choices::bulk_gated > 0 && bulk};
}

bool KernelLaunches::takes_bulk(Element weight, std::int32_t rows) const {
  return forms_.bulk && is_bulk(weight, rows) && device_.has_warpgroups();
}

bool KernelLaunches::takes_narrow(Element weight, std::int32_t rows) const {
  return forms_.narrow && is_narrow(weight, rows) && device_.has_warpgroups();
}

// Many rows in tiles of few columns would read the weights too often.
std::optional<Form> KernelLaunches::warpgroup_form(Element weight, std::int32_t rows, std::int32_t n) const {
  const bool bulk = takes_bulk(weight, rows), narrow = takes_narrow(weight, rows);
  if (bulk) return narrow ? fastest(Form::bulk_64, Form::tall_112, rows, n) : bulk_form(rows, n);
  return narrow && rows <= kSomeRows.rows ? std::optional(narrow_form(rows, n)) : std::nullopt;
}

bool KernelLaunches::takes_gated(Element weight, Function function, std::int32_t rows) const {
  return forms_.gated && choices::bulk_gated > 0 && function == Function::silu && weight == Element::bf16 &&
         takes_bulk(weight, rows);
}

Status KernelLaunches::linear_gated(const GatedLinearArgs& args) {
  return linear_gated(args, bulk_form(args.product.rows, 2 * args.product.n));
}

// The launch of a plain product with as many rows of weights, whose clusters have half of the columns each.
Status KernelLaunches::linear_gated(const GatedLinearArgs& args, ProductForm form) {
  CHECK(device_.has_warpgroups() && form <= Form::bulk_256);
  return put(kernel_after(KernelId::linear_bulk_gated_64_bf16, behind(form, Form::bulk_64)),
             shape_of(form, args.product.rows, 2 * args.product.n), args);
}

Status KernelLaunches::linear_warpgroups(Element weight, const LinearArgs& args, ProductForm form) {
  const bool bulk = form <= Form::bulk_256;
  CHECK((bulk || weight == Element::bf16) && weight < Element::fp8);
  // In kernels.def each bulk form has all elements but f32 and i8, and each narrow form has 32 rows and 64
  // rows; the tall forms follow them.
  const std::int32_t element = static_cast<std::int32_t>(weight) - (weight > Element::i8 ? 2 : 1);
  const KernelId id =
      bulk ? kernel_after(KernelId::linear_bulk_64_bf16, 6 * behind(form, Form::bulk_64) + element)
      : form >= Form::tall_64 ? kernel_after(KernelId::linear_narrow_64_128_bf16, behind(form, Form::tall_64))
                              : kernel_after(KernelId::linear_narrow_32_32_bf16,
                                             2 * behind(form, Form::narrow_32) + (args.rows <= 32 ? 0 : 1));
  return put(id, shape_of(form, args.rows, args.n), args);
}

}  // namespace pagoda::device
