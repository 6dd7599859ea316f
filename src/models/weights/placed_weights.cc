// Weights that a WeightLoader stores unpacked: vectors, and tables of rows.
#include "base/strings.h"
#include "kernels/device/device_ops.h"
#include "models/weights/weight_loader.h"

namespace pagoda {

PlacedVector WeightLoader::place(std::vector<float> values) {
  if (!reader_.status().ok() || (on_device(context_) && !store_.reads_source())) return {};
  auto placed = PlacedVector::place(context_, std::move(values));
  if (placed) return *std::move(placed);
  reader_.fail(placed.error());
  return {};
}

void WeightLoader::continue_series(std::size_t which, std::int64_t count) {
  if (reader_.status().ok() && on_device(context_) && store_.reads_source())
    context_.device->continue_series(which, count);
}

TensorView WeightLoader::keep_rows(const TensorView& matrix, const std::string& name, Range range) {
  if (!reader_.status().ok()) return {};
  const TensorView rows = with_rows(matrix, range);
  if (store_.reads_source()) reader_.fail(source_.bring_in(rows, context_.pool));
  if (!reader_.status().ok()) return {};
  if (on_device(context_) && store_.reads_source()) {
    auto placed = context_.device->place_table(rows);
    source_.give_back(rows);
    if (placed) return *std::move(placed);
    reader_.fail(placed.error().annotate(concat("tensor '", name, "'")));
    return {};
  }
  auto kept = store_.rows(concat("as stored ", name, "[", range.first, "+", range.count, "]"), rows,
                          [&](std::byte* to) { copy_stored(rows, to); });
  if (store_.reads_source()) source_.give_back(rows);
  if (kept) return *std::move(kept);
  reader_.fail(kept.error().annotate(concat("tensor '", name, "'")));
  return {};
}

}  // namespace pagoda
