#pragma once
// attention_input makes what attention reads of each row: one product gives queries, keys and values (and
// gates of the output), and behind it the heads are normed, cut off, rotated and scaled, in one pass over
// each row. Every step of the pass is off unless its numbers say otherwise. Not here: what is kept of a row
// (paged_attention.h). What a row's adapter adds stands behind the product and before the norms. Invariant: a
// row's result depends on the row, its adapter and its position alone. Source: RoFormer (arXiv 2104.09864);
// norms of heads: arXiv 2302.05442; temperature by position: Llama 4.
#include <cstdint>
#include <span>

#include "kernels/backend.h"
#include "kernels/buffer.h"
#include "kernels/linear.h"
#include "kernels/rows.h"

namespace pagoda {

// Norms of query and key heads, before the rotation or behind it.
struct HeadNorms {
  enum class Kind {
    none,
    rms,        // each head, with the same weights for all
    rms_whole,  // all query heads together, and all key heads
    layer,      // a layer norm of each head, with weights of its own
  };
  Kind kind = Kind::none;
  const float *query = nullptr, *key = nullptr;  // weights; rms: null for none
  bool values = false;                           // rms: of value heads, too, without weights
  bool behind_rotation = false;
  float eps = 0;
};

struct AttentionInputArgs {
  const PackedLinear* weight = nullptr;  // gives query | key | value (| gates); null: these are in `output`
  LinearInput input = {};
  std::int64_t num_rows = 0;
  std::int32_t num_query_heads = 0, num_kv_heads = 0;  // kv heads 0: a row has queries alone
  std::int32_t head_size = 0;
  HeadNorms norms = {};
  float clip = 0;  // above 0: elements of queries, keys and values are cut off at so much, before rotation
  // Rotation of the first rotary_size elements of each query and key head, half-rotation form: row r's angles
  // are row turns[r] of cos_sin [.., rotary_size], cosines first.
  std::int32_t rotary_size = 0;
  std::span<const std::int32_t> turns = {};
  Buffer cos_sin = {};
  float amplitude = 1;             // a factor that cos_sin has
  PositionScale query_scale = {};  // beta 0: none
  std::span<const std::int32_t> positions = {};
  Buffer output = {};  // [num_rows, columns of the product]
  // paged_attention is next for these rows, and writes their keys and values: a device leaves what comes
  // behind the product to the kernel that does.
  bool written_next = false;
};

void attention_input(const KernelContext& context, const AttentionInputArgs& args);

}  // namespace pagoda
