#pragma once
// Writes K/V into the paged cache, and computes attention of new query tokens over it: prefill, chunked
// prefill and decode alike (§4.1 eq. 4, §5.1 kernels 1-3).
//   T query tokens in the batch   Hq query heads, a multiple of Hkv   B block_size, token slots
//   D head size                   Hkv KV heads on this rank           L layers
//
// A physical block is one contiguous piece of memory that holds B token slots of every layer, K and V:
// [L][K|V][Hkv][...], so a copy-on-write, a swap or a release is one range. Inside, the layout is the
// kernels' own (cpu/README.md). Contiguous KV (reserved, virtual) is the same with consecutive block ids.
//
// A latent cache (DeepSeek-V2, arXiv 2405.04434, in its absorbed form) has one row per token for all query
// heads; the row's first elements are also the value: [L][Hkv][...], without V.
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

// The largest head size of an i8 cache: the sum of that many products of 8 and 16 bits fits into 32 bits.
constexpr std::int32_t kMaxInt8HeadSize = 512;

struct KvLayout {
  // f32, bf16, f16, i8 (8 bits, one scale per token and head) or e4m3 (8 bits, scales per layer)
  DType dtype = DType::f32;
  std::int32_t num_layers = 0, num_kv_heads = 0, head_size = 0, block_size = 16;
  // If positive, there are only keys, and each value is the first latent_size elements of its key.
  std::int32_t latent_size = 0;

  // Distance between blocks and between layers, in bytes; 0: packed. A virtual cache pads blocks to whole
  // pages, or keeps a tensor per layer, so that the layers of a block are far apart.
  std::int64_t block_stride = 0, layer_stride = 0;

  // The number of elements of a value head.
  std::int32_t value_size() const { return latent_size > 0 ? latent_size : head_size; }
  std::size_t layer_bytes() const;  // K and V of one layer in one block
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
  // Number of rows that pass through the surrounding products together; 0: all.
  std::int64_t rows_at_once = 0;
  // Heads are contiguous within a row; query, key and value rows have the same stride.
  Buffer query = {};  // [T, Hq, D]
  Buffer key = {};    // [T, Hkv, D], after rope; empty if the cache already holds the keys and values
  Buffer value = {};  // [T, Hkv, D]; not read if latent
  std::int32_t num_query_heads = 0;
  float scale = 1.0f;  // above 0; usually 1 / sqrt(D)
  // The scales of an e4m3 cache (kv_layout.h), positive and finite; not read for other types. A latent cache
  // only has the key's scale.
  float key_scale = 1.0f, value_scale = 1.0f;
  // If true, each row attends to itself and the tokens before it. If false, also to the tokens after it: all
  // tokens of a sequence are then queries of this batch, and there are no slopes.
  bool causal = true;
  // If positive, attend to the last W tokens, the row's own included, and, if not causal, to as many after
  // it.
  std::int32_t sliding_window = 0;
  // Attend to the tokens of the row's own chunk instead of the last W: chunks of positions 0 .. W - 1, W ..
  // 2W - 1, … (causal).
  bool chunks = false;
  float softcap = 0;  // if positive, scores s become softcap * tanh(s / softcap)
  // Per query head, or null. sinks: a score that takes part in the softmax without a value (attention sink).
  // slopes: subtracted from a score per token of distance (ALiBi).
  const float *sinks = nullptr, *slopes = nullptr;  // [Hq]
  Buffer output = {};                               // [T, Hq * value size] contiguous; must not alias query
  // A hint, or null: the product that reads all rows of `output` before it is written again, and is its only
  // reader. `output` may then hold only the form that this product takes.
  const PackedLinear* next = nullptr;
};

// The first token that a position attends to.
inline std::int32_t first_seen(const PagedAttentionArgs& args, std::int32_t position) {
  if (args.sliding_window <= 0) return 0;
  if (args.chunks) return position / args.sliding_window * args.sliding_window;
  return position < args.sliding_window ? 0 : position - args.sliding_window + 1;
}

// The number of rows that pass through the products together.
std::int64_t rows_at_once(const PagedAttentionArgs& args);

// First writes the rows' K and V into their slots, if given, then attends. Blocks until done.
void paged_attention(const KernelContext& context, const PagedAttentionArgs& args);

// For KernelContext::read_ahead: lists the memory that attention with these arguments will read, except its
// own writes, limited to what fits into a cache. The part that is read first comes last.
void list_context(const KernelContext& context, const PagedAttentionArgs& args, ReadAhead& out);

// Copies whole blocks (all layers), all pairs in one call. No destination may also be a source.
struct BlockPair {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
};
void copy_blocks(const KernelContext& context, std::size_t block_bytes, std::span<const BlockPair> pairs);

}  // namespace pagoda
