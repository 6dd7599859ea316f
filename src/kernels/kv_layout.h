#pragma once
// The address of an element of the paged KV cache inside its block; block tables are the caller's. Each
// (layer, K or V, KV head) is one contiguous piece of block_size x D elements, with D rounded up to even (i8,
// e4m3: to a multiple of 4). If block_size is a multiple of 16, the piece consists of groups of 16 tokens:
//   bf16   K [D/2][16 tokens][2]    V [8 token pairs][D][2]     one vdpbf16ps serves 16 tokens
//   i8     K [D/4][16 tokens][4]    V [4 token quads][D][4]     one vpdpbusd serves 16; then f32 [16] scales
//   other  K [D][16 tokens]         V [16 tokens][D]
// Otherwise the piece is plain [token][D] (i8: each token followed by its scale), which the fast path gathers
// into groups. A latent cache has no V: the values are the first elements of each token's K.
// i8: x = (u - 128) * scale, where u is a byte and scale = max|x| / 127 over the token's D elements; it
// depends on that row alone. e4m3: x = number * scale, where number is nearest_e4m3(x / scale) of
// tensor/small_floats.h. The layer has one scale for keys and one for values (PagedAttentionArgs); they are
// not stored in the cache.
#include "kernels/paged_attention.h"

namespace pagoda {

constexpr std::int32_t kTokenGroup = 16;

struct KvAddress {
  explicit KvAddress(const KvLayout& layout)
      : element(dtype_info(layout.dtype).block_bytes),
        packed(layout.dtype == DType::i8     ? 4
               : layout.dtype == DType::bf16 ? 2
                                             : 1),
        width(element == 1 ? (layout.head_size + 3) / 4 * 4 : (layout.head_size + 1) / 2 * 2),
        scale_bytes(layout.dtype == DType::i8 ? 4 : 0),
        grouped(layout.block_size % kTokenGroup == 0),
        token_bytes(width * element + scale_bytes),
        head_bytes(layout.block_size * token_bytes),
        latent(layout.latent_size > 0),
        value_offset(latent ? 0 : head_bytes * layout.num_kv_heads),
        layer_bytes((latent ? 1 : 2) * head_bytes * layout.num_kv_heads),
        layer_stride(layout.layer_stride > 0 ? layout.layer_stride : layer_bytes),
        block_stride(layout.block_stride > 0 ? layout.block_stride : layer_bytes * layout.num_layers) {}

  // The offset of one KV head's piece in one layer, from the start of the block.
  std::int64_t key_piece(std::int32_t layer, std::int32_t head) const {
    return layer * layer_stride + head * head_bytes;
  }
  std::int64_t value_piece(std::int32_t layer, std::int32_t head) const {
    return key_piece(layer, head) + value_offset;
  }

  // Byte offsets from the start of the piece: of token slot `slot`, dimension `d`; and of the token's scale
  // (i8).
  std::int64_t key(std::int32_t slot, std::int32_t d) const {
    if (!grouped) return slot * token_bytes + d * element;
    const std::int32_t t = slot % kTokenGroup;
    return group(slot) + ((d / packed * kTokenGroup + t) * packed + d % packed) * element;
  }
  std::int64_t value(std::int32_t slot, std::int32_t d) const {
    if (latent) return key(slot, d);
    if (!grouped) return slot * token_bytes + d * element;
    const std::int32_t t = slot % kTokenGroup;
    return group(slot) + ((t / packed * width + d) * packed + t % packed) * element;
  }
  std::int64_t scale(std::int32_t slot) const {
    if (!grouped) return slot * token_bytes + width;
    return group(slot) + kTokenGroup * width + slot % kTokenGroup * scale_bytes;
  }
  std::int64_t group(std::int32_t slot) const { return slot / kTokenGroup * kTokenGroup * token_bytes; }

  std::int64_t element;      // bytes per element
  std::int32_t packed;       // elements that one instruction multiplies together; adjacent in memory
  std::int64_t width;        // D rounded up
  std::int64_t scale_bytes;  // bytes of scales per token
  bool grouped;
  std::int64_t token_bytes, head_bytes;
  bool latent;  // values are prefixes of keys
  std::int64_t value_offset, layer_bytes;
  std::int64_t layer_stride, block_stride;  // distance between layers or blocks, in bytes
};

}  // namespace pagoda
