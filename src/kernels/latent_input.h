#pragma once
// The products of latent attention's heads, each with a matrix of its own, and the row that it keeps of a
// token (models/decoder/latent_attention.cc). A row's result depends on the row alone.
#include <cstdint>
#include <span>

#include "kernels/backend.h"
#include "kernels/buffer.h"
#include "kernels/linear.h"

namespace pagoda {

// out's row r, head h (at column h * out_head_stride) = matrices[h] * x's row r, head h (at column h *
// head_stride).
void head_products(const KernelContext& context, std::span<const PackedLinear> matrices,
                   std::int64_t num_rows, const Buffer& x, std::int64_t head_stride, const Buffer& out,
                   std::int64_t out_head_stride);

// Each row of `out` is num_heads + 1 rows of latent_size + rope_size: those of the heads get the rotated part
// of their query, which lies at column `nope_size` of each of query_size, and the last one is what is kept:
// an RMS norm of the latent part of `kept`, and its rotated part as it is.
struct LatentRows {
  std::int64_t num_heads = 0, query_size = 0, nope_size = 0, latent_size = 0, rope_size = 0;
  const float* weight = nullptr;  // the norm's [latent_size]
  float eps = 0;
};
void latent_rows(const KernelContext& context, const LatentRows& shape, std::int64_t num_rows,
                 const Buffer& queries, const Buffer& kept, const Buffer& out);

}  // namespace pagoda
