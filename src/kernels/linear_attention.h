#pragma once
// Attention without softmax, for heads that keep one matrix per sequence instead of keys and values: gated
// delta nets (Qwen3-Next, Qwen3.5) and Mamba-2. The same formula serves one token and many, with tokens
// strictly in order.
//   T  rows of the batch    H  heads    Hk  key heads, each serving H / Hk heads    Dk, Dv  sizes
//
//   S <- decay * S                                                        S [Dk, Dv]
//   d  = weight * (value - S^T key)      the delta rule: the part of value that S does not predict from key
//     or weight * value                  Mamba-2: weight is the step, key is B, query is C
//   S <- S + key d^T
//   output = S^T query + skip * value
//
// Columns of S are independent: a tile of columns passes through all rows of a sequence in the first-level
// cache. Every sum runs over Dk in ascending order, as one chain per column, so the result depends neither on
// the tile nor on the division into steps. Not here: the norms of queries and keys, and the computation of
// decay and weight. Source: Gated DeltaNet (arXiv 2412.06464) eq. 10; Mamba-2 (arXiv 2405.21060) §2.
#include <algorithm>
#include <cstdint>

#include "kernels/backend.h"
#include "kernels/buffer.h"
#include "kernels/sequence_state.h"

namespace pagoda {

struct LinearAttentionArgs {
  std::int32_t num_heads = 0, num_key_heads = 0;
  bool tiled_heads = false;  // head h uses key head h % Hk, GGUF's order; otherwise h / (H / Hk)
  std::int32_t key_size = 0, value_size = 0;
  bool delta_rule = false;
  Buffer query = {}, key = {};     // [T, Hk, Dk]; query, key and value share one stride
  Buffer value = {};               // [T, H, Dv]
  Buffer decay = {}, weight = {};  // [T, H], with the same stride
  const float* skip = nullptr;     // [H], or null: 0
  Buffer output = {};              // [T, H, Dv]; may be `value`
  // The state of head h is piece `piece` + h of the layer's state: Dk * Dv floats, indexed by state_index().
  LayerStates states;
  std::int32_t piece = 0;

  std::int32_t key_head(std::int32_t head) const {
    return tiled_heads ? head % num_key_heads : head / (num_heads / num_key_heads);
  }
};

// A head's matrix is stored in tiles of this many columns, each [Dk, columns of the tile] and contiguous.
constexpr std::int32_t kStateColumns = 32;
inline std::int64_t state_index(std::int32_t key_size, std::int32_t value_size, std::int32_t row,
                                std::int32_t column) {
  const std::int32_t first = column / kStateColumns * kStateColumns;
  const std::int32_t width = std::min(kStateColumns, value_size - first);
  return std::int64_t{first} * key_size + std::int64_t{row} * width + (column - first);
}

void linear_attention(const KernelContext& context, const LinearAttentionArgs& args);

}  // namespace pagoda
