#pragma once
// Products of latent attention's heads, each with its own matrix, and the row that is cached for a token
// (models/decoder/latent_attention.cc). A row's result depends on that row alone.
#include <cstdint>
#include <span>

#include "kernels/backend.h"
#include "kernels/buffer.h"
#include "kernels/linear.h"

namespace pagoda {

// Row r, head h of out (at column h * out_head_stride) = matrices[h] * row r, head h of x (at column h *
// head_stride).
void head_products(const KernelContext& context, std::span<const PackedLinear> matrices,
                   std::int64_t num_rows, const Buffer& x, std::int64_t head_stride, const Buffer& out,
                   std::int64_t out_head_stride);

// Each row of `out` consists of num_heads + 1 rows of latent_size + rope_size elements. Each head's row
// receives the rotated part of its query, which starts at column `nope_size` of the query's query_size
// elements. The last row is the one to cache: an RMS norm of the latent part of `kept`, and its rotated part
// unchanged.
struct LatentRows {
  std::int64_t num_heads = 0, query_size = 0, nope_size = 0, latent_size = 0, rope_size = 0;
  const float* weight = nullptr;  // the norm's [latent_size]
  float eps = 0;
};
void latent_rows(const KernelContext& context, const LatentRows& shape, std::int64_t num_rows,
                 const Buffer& queries, const Buffer& kept, const Buffer& out);

}  // namespace pagoda
