#include "kernels/latent_input.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/device/ops.h"
#include "kernels/for_rows.h"
#include "kernels/linear_storage.h"
#include "kernels/reference/reference.h"

namespace pagoda {

// Each tile is some rows of one head, on one thread.
void head_products(const KernelContext& context, std::span<const PackedLinear> matrices,
                   std::int64_t num_rows, const Buffer& x, std::int64_t head_stride, const Buffer& out,
                   std::int64_t out_head_stride) {
  if (on_device(context)) {
    for (std::int64_t head = 0; head < std::ssize(matrices); ++head)
      device_ops::linear(*context.device, matrices[static_cast<std::size_t>(head)].storage(),
                         LinearInput::rows(x.at(0, head * head_stride)), num_rows,
                         out.at(0, head * out_head_stride), {});
    return;
  }
  constexpr std::int64_t kRowsOfTile = 64;  // rows that pass through one head's matrix together
  const std::int64_t heads = std::ssize(matrices), parts = ceil_div(num_rows, kRowsOfTile);
  for_tiles(context, heads * parts, [&](std::int64_t tile, int) {
    static thread_local std::vector<float> products;
    KernelContext alone = context;
    alone.pool = nullptr;
    alone.read_ahead = nullptr;
    const std::int64_t head = tile % heads, part = tile / heads;
    const std::int64_t first = num_rows * part / parts, last = num_rows * (part + 1) / parts;
    const PackedLinear& matrix = matrices[static_cast<std::size_t>(head)];
    products.resize(static_cast<std::size_t>((last - first) * matrix.n()));
    linear(alone, matrix, LinearInput::rows(x.at(first, head * head_stride)), last - first,
           Buffer::of(products.data(), matrix.n()));
    for (std::int64_t row = first; row < last; ++row)
      std::copy_n(products.data() + (row - first) * matrix.n(), matrix.n(),
                  floats(out, row) + head * out_head_stride);
  });
}

void latent_rows(const KernelContext& context, const LatentRows& shape, std::int64_t num_rows,
                 const Buffer& queries, const Buffer& kept, const Buffer& out) {
  if (on_device(context))
    return device_ops::latent_rows(*context.device, shape, num_rows, queries, kept, out);
  const std::int64_t latent = shape.latent_size, row_size = latent + shape.rope_size;
  for_rows(context, num_rows, (shape.num_heads + 1) * shape.rope_size + 4 * latent, [&](std::int64_t row) {
    float* to = floats(out, row);
    const float* query = floats(queries, row) + shape.nope_size;
    for (std::int64_t head = 0; head < shape.num_heads; ++head, to += row_size, query += shape.query_size)
      std::copy_n(query, shape.rope_size, to + latent);
    const float* const from = floats(kept, row);
    std::copy_n(from + latent, shape.rope_size, to + latent);
    if (context.backend == Backend::reference)
      return reference::rms_norm(from, latent, shape.weight, shape.eps, to);
    double sum = 0;
    for (std::int64_t i = 0; i < latent; ++i) sum += static_cast<double>(from[i]) * from[i];
    const auto scale = static_cast<float>(1.0 / std::sqrt(sum / static_cast<double>(latent) + shape.eps));
    for (std::int64_t i = 0; i < latent; ++i) to[i] = from[i] * scale * shape.weight[i];
  });
}

}  // namespace pagoda
