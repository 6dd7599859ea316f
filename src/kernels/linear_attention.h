#pragma once
// Attention without a softmax, of heads that keep one matrix of a sequence instead of its keys and values:
// gated delta nets (Qwen3-Next, Qwen3.5) and Mamba-2. One formula for one token and for many, tokens strictly
// in order.
//   T  rows of the batch    H  heads    Hk  key heads, of which each serves H / Hk heads    Dk, Dv  sizes
//
//   S <- decay * S                                                        S [Dk, Dv]
//   d  = weight * (value - S^T key)      the delta rule: what S does not say of the key yet
//     or weight * value                  Mamba-2, whose weight is the step, key B, query C
//   S <- S + key d^T
//   output = S^T query + skip * value
//
// Columns of S are independent of each other: a tile of them goes through all rows of a sequence in the
// nearest cache. Every sum runs over Dk ascending, one chain a column, so neither the tile nor the cut into
// steps shows. Not here: the norms of queries and keys, what makes decay and weight of a row. Source: Gated
// DeltaNet (arXiv 2412.06464) eq. 10; Mamba-2 (arXiv 2405.21060) §2.
#include <algorithm>
#include <cstdint>

#include "kernels/backend.h"
#include "kernels/buffer.h"
#include "kernels/sequence_state.h"

namespace pagoda {

struct LinearAttentionArgs {
  std::int32_t num_heads = 0, num_key_heads = 0;
  bool tiled_heads = false;  // head h has key head h % Hk, as GGUF orders them; else h / (H / Hk)
  std::int32_t key_size = 0, value_size = 0;
  bool delta_rule = false;
  Buffer query = {}, key = {};     // [T, Hk, Dk], both and the values with one stride
  Buffer value = {};               // [T, H, Dv]
  Buffer decay = {}, weight = {};  // [T, H], both with one stride
  const float* skip = nullptr;     // [H], or null: 0
  Buffer output = {};              // [T, H, Dv]; may be `value`
  // The state of head h is piece `piece` + h of the layer's: Dk * Dv floats, of which state_index() says
  // which is which.
  LayerStates states;
  std::int32_t piece = 0;

  std::int32_t key_head(std::int32_t head) const {
    return tiled_heads ? head % num_key_heads : head / (num_heads / num_key_heads);
  }
};

// A head's matrix lies in tiles of so many columns, each [Dk, columns of the tile] and contiguous.
constexpr std::int32_t kStateColumns = 32;
inline std::int64_t state_index(std::int32_t key_size, std::int32_t value_size, std::int32_t row,
                                std::int32_t column) {
  const std::int32_t first = column / kStateColumns * kStateColumns;
  const std::int32_t width = std::min(kStateColumns, value_size - first);
  return std::int64_t{first} * key_size + std::int64_t{row} * width + (column - first);
}

void linear_attention(const KernelContext& context, const LinearAttentionArgs& args);

}  // namespace pagoda
