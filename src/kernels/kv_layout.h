#pragma once
// Where an element of the paged KV cache lies inside its block. Not the table of blocks: that is the
// caller's. Each (layer, K or V, KV head) is one contiguous piece of block_size x D elements, with D
// rounded up to even. Within it, when block_size is a multiple of 16, groups of 16 tokens:
//     bf16   K [D/2][16 tokens][2]    V [8 token pairs][D][2]     one vdpbf16ps serves 16 tokens
//     other  K [D][16 tokens]         V [16 tokens][D]
// and otherwise plain [token][D], which the fast path gathers into the same groups.
#include "kernels/paged_attention.h"

namespace pagoda {

constexpr std::int32_t kTokenGroup = 16;

struct KvAddress {
  explicit KvAddress(const KvLayout& layout)
      : element(dtype_info(layout.dtype).block_bytes),
        width((layout.head_size + 1) / 2 * 2),
        pairs(layout.dtype == DType::bf16),
        grouped(layout.block_size % kTokenGroup == 0),
        head_bytes(static_cast<std::int64_t>(layout.block_size) * width * element),
        value_offset(head_bytes * layout.num_kv_heads),
        layer_bytes(2 * value_offset),
        layer_stride(layout.layer_stride > 0 ? layout.layer_stride : layer_bytes),
        block_stride(layout.block_stride > 0 ? layout.block_stride : layer_bytes * layout.num_layers) {}

  // Of the piece of one KV head in one layer, from the block's start.
  std::int64_t key_piece(std::int32_t layer, std::int32_t head) const {
    return layer * layer_stride + head * head_bytes;
  }
  std::int64_t value_piece(std::int32_t layer, std::int32_t head) const {
    return key_piece(layer, head) + value_offset;
  }

  // Element index inside the piece of token slot `slot`, dimension `d`.
  std::int64_t key(std::int32_t slot, std::int32_t d) const {
    if (!grouped) return static_cast<std::int64_t>(slot) * width + d;
    const std::int64_t group = static_cast<std::int64_t>(slot / kTokenGroup) * kTokenGroup * width;
    const std::int32_t t = slot % kTokenGroup;
    return group + (pairs ? d / 2 * 32 + t * 2 + d % 2 : d * kTokenGroup + t);
  }
  std::int64_t value(std::int32_t slot, std::int32_t d) const {
    if (!grouped || !pairs) return static_cast<std::int64_t>(slot) * width + d;
    const std::int64_t pair = static_cast<std::int64_t>(slot / 2) * 2 * width;
    return pair + d * 2 + slot % 2;
  }

  std::int64_t element;  // bytes
  std::int64_t width;    // D rounded up to even
  bool pairs, grouped;
  std::int64_t head_bytes, value_offset, layer_bytes;
  std::int64_t layer_stride, block_stride;  // from one layer or block to the next
};

}  // namespace pagoda
