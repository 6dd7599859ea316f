#pragma once
// Writing K/V into the paged cache, and attention of new query tokens over it: prefill, chunked prefill
// and decode alike (§4.1 eq. 4, §5.1 kernels 1-3).
//   T query tokens in the batch   Hq query heads, a multiple of Hkv   B block_size, token slots
//   D head size                   Hkv KV heads on this rank           L layers
//
// A physical block is one contiguous piece of memory that holds B token slots of every layer, K and V:
// [L][K|V][Hkv][...], so a copy-on-write, a swap or a release is one range. Inside, the layout is the
// kernels' own (cpu/README.md). Contiguous KV (reserved, virtual) is the same with consecutive block ids.
//
// A latent cache (DeepSeek-V2, arXiv 2405.04434, in its absorbed form) has one row a token for all query
// heads, whose first elements are the value, too: [L][Hkv][...], without V.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "kernels/backend.h"
#include "kernels/buffer.h"
#include "kernels/read_ahead.h"
#include "tensor/dtype.h"

namespace pagoda {

class PackedLinear;

// The largest head of a cache in i8: so many products of 8 and 16 bits have a sum of 32.
constexpr std::int32_t kMaxInt8HeadSize = 512;

struct KvLayout {
  // f32, bf16, f16, i8 (8 bits and a scale for each token and head) or e4m3 (8 bits, scales of the layer)
  DType dtype = DType::f32;
  std::int32_t num_layers = 0, num_kv_heads = 0, head_size = 0, block_size = 16;
  // Above 0: there are only keys, and values are so many elements of each, the first.
  std::int32_t latent_size = 0;

  // Distances of blocks and layers, in bytes; 0: packed. A virtual cache pads blocks to whole pages, or keeps
  // a tensor for each layer, with the block's other layers far away.
  std::int64_t block_stride = 0, layer_stride = 0;

  // Elements of a value head.
  std::int32_t value_size() const { return latent_size > 0 ? latent_size : head_size; }
  std::size_t layer_bytes() const;  // one layer in one block, K and V
  std::size_t block_bytes() const;  // one block: all layers, without padding
};

// One sequence's part of a batch. Its query rows are rows [query_start, query_start + num_queries) of
// the batch, at positions context_len - num_queries .. context_len - 1.
struct AttentionSequence {
  std::int32_t query_start = 0;
  std::int32_t num_queries = 0;
  std::int32_t context_len = 0;               // tokens the last query row attends to, itself included
  const std::int32_t* block_table = nullptr;  // physical block of each logical block
};

struct PagedAttentionArgs {
  KvLayout layout;
  std::byte* cache = nullptr;  // block i at cache + i * its stride
  std::int32_t layer = 0;
  std::span<const AttentionSequence> sequences;
  std::int64_t rows_at_once = 0;  // that pass through the products before and after together; 0: all
  // Heads are contiguous inside a row; the rows of all three have one stride.
  Buffer query = {};  // [T, Hq, D]
  Buffer key = {};    // [T, Hkv, D], rope applied; none: the slots have what is attended to
  Buffer value = {};  // [T, Hkv, D]; latent: not read
  std::int32_t num_query_heads = 0;
  float scale = 1.0f;  // above 0; usually 1 / sqrt(D)
  // The scales of a cache in e4m3 (kv_layout.h), above 0 and finite; others do not read them. A latent cache
  // has the key's alone.
  float key_scale = 1.0f, value_scale = 1.0f;
  // Each row attends to the tokens before it and itself; or, where not, to those behind it, too: then all of
  // a sequence's tokens are its queries, and there are no slopes.
  bool causal = true;
  // Attend to the last W tokens, itself included, and if not causal as many behind it; 0: to all.
  std::int32_t sliding_window = 0;
  // Instead of the last W tokens, those of its own chunk: of positions 0 .. W - 1, W .. 2W - 1, … (causal).
  bool chunks = false;
  float softcap = 0;  // above 0: scores s become softcap * tanh(s / softcap)
  // For each query head, or null: a score that takes part in the softmax without a value (attention sink),
  // and the loss of a score for each token of distance (ALiBi).
  const float *sinks = nullptr, *slopes = nullptr;  // [Hq]
  Buffer output = {};                               // [T, Hq * value size] contiguous; must not alias query
  // A hint: the product which reads all rows of `output` before it is written again, and nobody else does; or
  // null. There may be nothing in `output` then but what that product takes.
  const PackedLinear* next = nullptr;
};

// The first token that a position attends to.
inline std::int32_t first_seen(const PagedAttentionArgs& args, std::int32_t position) {
  if (args.sliding_window <= 0) return 0;
  if (args.chunks) return position / args.sliding_window * args.sliding_window;
  return position < args.sliding_window ? 0 : position - args.sliding_window + 1;
}

// Rows that pass through products together.
std::int64_t rows_at_once(const PagedAttentionArgs& args);

// First writes the rows' K and V into their slots, if they are given, then attends. Blocks until done.
void paged_attention(const KernelContext& context, const PagedAttentionArgs& args);

// Lists the memory that attention with these arguments will read, but for its own writes; no more than fits
// into a cache. The part that is read first comes last. For KernelContext::read_ahead.
void list_context(const KernelContext& context, const PagedAttentionArgs& args, ReadAhead& out);

// Copies whole blocks (all layers), all pairs in one call; no destination is also a source.
struct BlockPair {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
};
void copy_blocks(const KernelContext& context, std::size_t block_bytes, std::span<const BlockPair> pairs);

}  // namespace pagoda
