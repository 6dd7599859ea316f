#pragma once
// attention_input computes the inputs of attention for each row: one product gives queries, keys and values
// (and output gates); then the heads are normalised, clipped, rotated and scaled in one pass over each row.
// Each step of the pass is off unless its parameters enable it. Not here: storing keys and values
// (paged_attention.h). A row's adapter is applied after the product and before the norms. Invariant: a row's
// result depends only on the row, its adapter and its position. Source: RoFormer (arXiv 2104.09864); norms of
// heads: arXiv 2302.05442; temperature by position: Llama 4.
#include <cstdint>
#include <span>

#include "kernels/backend.h"
#include "kernels/buffer.h"
#include "kernels/linear.h"
#include "kernels/rows.h"

namespace pagoda {

// Norms of query and key heads, before or after the rotation.
struct HeadNorms {
  enum class Kind {
    none,
    rms,        // each head, all heads with the same weights
    rms_whole,  // all query heads together, and all key heads together
    layer,      // a layer norm of each head, with its own weights
  };
  Kind kind = Kind::none;
  const float *query = nullptr, *key = nullptr;  // weights; rms: null for no weights
  bool values = false;                           // rms: also normalises value heads, without weights
  bool behind_rotation = false;
  float eps = 0;
};

struct AttentionInputArgs {
  // Gives query | key | value (| gates). Null if `output` already holds them.
  const PackedLinear* weight = nullptr;
  LinearInput input = {};
  std::int64_t num_rows = 0;
  std::int32_t num_query_heads = 0, num_kv_heads = 0;  // num_kv_heads 0: rows hold only queries
  std::int32_t head_size = 0;
  HeadNorms norms = {};
  float clip = 0;  // if positive, queries, keys and values are clamped to [-clip, clip] before the rotation
  // Rotates the first rotary_size elements of each query and key head, in half-rotation form. The angles of
  // row r are row turns[r] of cos_sin [.., rotary_size], cosines first.
  std::int32_t rotary_size = 0;
  std::span<const std::int32_t> turns = {};
  Buffer cos_sin = {};
  float amplitude = 1;             // a factor already included in cos_sin
  PositionScale query_scale = {};  // beta 0: no scaling
  std::span<const std::int32_t> positions = {};
  Buffer output = {};  // [num_rows, columns of the product]
  // paged_attention follows for these rows and writes their keys and values. A device then leaves the steps
  // after the product to the kernel that writes them.
  bool written_next = false;
};

void attention_input(const KernelContext& context, const AttentionInputArgs& args);

}  // namespace pagoda
