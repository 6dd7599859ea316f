#pragma once
// The parts of decode attention by tiles that prepare a row's own heads in shared memory: the queries of a KV
// head as the left matrix of products; and, if the launch includes the work of rope_and_write()
// (AttentionArgs::write), the row's key and value as lines of a tile, also written to their slots. Only the
// block with the row's last split makes these two, and it reads them from shared memory: no block reads them
// from the cache in the same launch.
#include "device/kernels/attention_splits.cuh"

namespace pagoda::device::kernels {

template <class T>
inline constexpr bool kEights = sizeof(T) == 1;

// A tile of a row whose key and value may have to be made by this launch.
template <int padded, class T>
__device__ __forceinline__ TileOfRows own_tile(const AttentionArgs& args) {
  TileOfRows tile = tile_of_rows(args, static_cast<int>(blockIdx.x), 1, static_cast<int>(blockIdx.y));
  if (finishes_heads(padded, kEights<T>) && args.write.qkv != nullptr) tile.stored = tile.high - 1;
  return tile;
}
// The line to be made among the tokens from `token` on: beyond all of a split, or negative, if there is none.
__device__ __forceinline__ int own_line(const TileOfRows& tile, int token) {
  return tile.stored < tile.high ? tile.high - token : -1;
}

// The memory of a row's own key and value in shared memory. floats: space for a head in floats, for 8 bits.
template <class T>
struct OwnLines {
  SlotLine<T> key, value;
  float* floats;
};

// Writes the block's queries, rounded, as a left matrix of 16 rows: zeros where there is no head or no
// element of one. Heads that are not `finished` are left out.
template <int padded>
__device__ __forceinline__ void put_queries(const AttentionArgs& args, const TileOfRows& tile, bool finished,
                                            Bf16* query) {
  constexpr int kChunks = padded / 8;
  const int group = args.num_query_heads / args.cache.num_kv_heads, size = args.cache.head_size;
  const float* const from = args.qkv + (static_cast<std::int64_t>(args.rows[tile.begin]) *
                                            (args.num_query_heads + 2 * args.cache.num_kv_heads) +
                                        tile.kv_head * group) *
                                           size;
  for (int i = static_cast<int>(threadIdx.x); i < 16 * kChunks; i += static_cast<int>(blockDim.x)) {
    const int row = i / kChunks, column = i % kChunks * 8;
    const bool there = row < group && column < size;
    if (there && !finished) continue;
    FourWords words = {};
    if (there) {
      const auto low = load_whole<FourFloats>(from + row * size + column),
                 high = load_whole<FourFloats>(from + row * size + column + 4);
      words = {{pack(low.at[0], low.at[1]), pack(low.at[2], low.at[3]), pack(high.at[0], high.at[1]),
                pack(high.at[2], high.at[3])}};
    }
    store_whole(query + row * TileSizes<padded>::kStride + column, words);
  }
}

// Writes a row's own key or value from `line` to its slot, and zeros to `line` where a head lacks some of its
// last 16 elements. Called by the warp that made the line.
template <class T>
__device__ __forceinline__ void put_own_line(const CacheArgs& cache, const TileOfRows& tile, bool value,
                                             const SlotLine<T>& line) {
  const int size = cache.head_size, lane = static_cast<int>(threadIdx.x % 32);
  if (size % 16 != 0 && lane == 0) store_whole(line.line + size, FourWords{});
  __syncwarp();
  const SlotLine<T> slot = slot_line<T>(cache, tile.table, tile.high, value, tile.kv_head);
  for (int i = kPieceElements<T> * lane; i < size; i += 32 * kPieceElements<T>)
    store_whole(slot.line + i, load_whole<FourWords>(line.line + i));
  if constexpr (kScaleElements<T> != 0)
    if (lane == 0) *slot.scale = *line.scale;
}

// Writes the queries, keys and values of the block, by all of its warps; they are visible after a barrier.
// has_last: the block has the row's last split, and therefore the row's own key and value.
template <int padded, class T>
__device__ __forceinline__ void put_heads(const AttentionArgs& args, const TileOfRows& tile, bool has_last,
                                          Bf16* query, const OwnLines<T>& own) {
  const bool finished = !finishes_heads(padded, kEights<T>) || args.write.qkv == nullptr;
  put_queries<padded>(args, tile, finished, query);
  if (finished) return;
  const CacheArgs& cache = args.cache;
  const int group = args.num_query_heads / cache.num_kv_heads, row = args.rows[tile.begin];
  const float* const heads = args.write.qkv + static_cast<std::int64_t>(row) *
                                                  (args.num_query_heads + 2 * cache.num_kv_heads) *
                                                  cache.head_size;
  const int ends = group + (has_last ? 2 : 0), warps = static_cast<int>(blockDim.x / 32);
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x / 32); i < ends; i += warps) {
    const bool is_query = i<group, is_value = i> group;
    const int head = is_query ? tile.kv_head * group + i
                              : args.num_query_heads + (i - group) * cache.num_kv_heads + tile.kv_head;
    const float* const x = heads + head * cache.head_size;
    if (is_value) {
      write_line<T>(cache, true, own.value, x);
      put_own_line<T>(cache, tile, true, own.value);
      continue;
    }
    Bf16* to = query + i * TileSizes<padded>::kStride;
    if constexpr (sizeof(T) == sizeof(Bf16)) to = is_query ? to : own.key.line;
    finish_head(args.write, row, tile.high, head, x, [&](int at, bool twos, const TwoFloats& two) {
      if (sizeof(T) == 1 && !is_query)
        store_two(own.floats + at, twos, two);
      else
        store_two(to + at, twos, two);
    });
    if (is_query) continue;
    if constexpr (sizeof(T) == 1) {
      __syncwarp();
      write_line<T>(cache, false, own.key, own.floats);
    }
    put_own_line<T>(cache, tile, false, own.key);
  }
}

// Loads the left matrices of a warp's products with keys.
template <int padded>
__device__ __forceinline__ void load_query_matrices(const Bf16* queries, int lane,
                                                    std::uint32_t (&query)[padded / 16][4]) {
#pragma unroll
  for (int k = 0; k < padded / 16; ++k)
    load_matrices<false>(queries + lane % 16 * TileSizes<padded>::kStride + 16 * k + lane / 16 * 8, query[k]);
}

}  // namespace pagoda::device::kernels
