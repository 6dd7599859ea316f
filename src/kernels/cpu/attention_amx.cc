// Attention over bfloat16 K and V for CpuLevel::avx512 with AMX. The cache already has the layout of AMX
// tiles: 32 dimensions of 16 tokens for keys, 16 tokens of 16 dimensions for values. Queries and softmax
// weights are rounded to bfloat16.
//
// A score is accumulated 32 dimensions at a time, a value 16 tokens at a time, with even and odd ones in two
// chains that are then added. Tokens to which a row-head does not attend have weight 0 and add 0, so neither
// the tiles nor neighbouring row-heads change a bit.
#include "kernels/cpu/simd_avx512.h"
// After the lanes: the loops below are written in terms of them.
#include "kernels/cpu/amx_tiles.h"
#include "kernels/cpu/attention_inl.h"

namespace pagoda::cpu {
namespace {

constexpr std::int64_t kBlockRows = 16;                           // maximum row-heads per tile
constexpr std::int64_t kScoreBytes = kPartition * sizeof(float);  // per row-head
constexpr std::int64_t kGroupWeightBytes = 32;                    // per row-head and group
// Groups of tokens, or vectors of dimensions, whose sums are held in tiles at once.
constexpr int kColumns = 4;

// The layout of a tile's memory: queries [block][32-dimension step][row-head][32]; then the scores of one
// block, [row-head][256], which are converted in place to its weights, [row-head][256] in 16 bits.
struct Blocks {
  explicit Blocks(const AttentionTile& t)
      : count((t.num_row_heads() + kBlockRows - 1) / kBlockRows),
        height((t.num_row_heads() + count - 1) / count),
        step_bytes(height * 64),
        query_bytes((t.width + 31) / 32 * step_bytes),
        scores(count * query_bytes) {}

  std::int64_t count, height;  // number of blocks, and row-heads per block
  std::int64_t step_bytes, query_bytes, scores;
};

std::int64_t tiles_work_bytes(const AttentionTile& t) {
  const Blocks blocks(t);
  return blocks.scores + blocks.height * kScoreBytes;
}

PAGODA_INLINE I bits_of(F x) { return _mm512_castps_si512(x); }
// Words 1, 3, ... of one vector and then of another.
PAGODA_INLINE I upper_words(I first, I second) {
  const I order = _mm512_set_epi16(63, 61, 59, 57, 55, 53, 51, 49, 47, 45, 43, 41, 39, 37, 35, 33, 31, 29, 27,
                                   25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
  return _mm512_permutex2var_epi16(first, order, second);
}
// Rounds to the nearest bfloat16 number, halves away from 0.
PAGODA_INLINE F rounded(F x) {
  return _mm512_castsi512_ps(_mm512_and_si512(_mm512_add_epi32(bits_of(x), iset1(0x8000)), iset1(-0x10000)));
}

void prepare_tiles(const AttentionTile& t, std::byte* work) {
  const Blocks blocks(t);
  for (std::int32_t i = 0; i < t.num_row_heads(); ++i) {
    const float* q = query_of(t, i);
    std::byte* line = work + i / blocks.height * blocks.query_bytes + i % blocks.height * 64;
    for (std::int32_t d = 0; d < t.width; d += 16) {
      const std::int32_t n = t.head_size - d;
      store_pair_input(reinterpret_cast<PairInput*>(line + d % 32 * 2),
                       n >= 16 ? load(q + d) : load_n(q + d, n));
      if (d % 32 != 0) line += blocks.step_bytes;
    }
  }
}

// Tiles 0 to 3 hold sums; tiles 4 and 5 are operands of 32 numbers, 6 and 7 of 16.
struct AttentionTileShapes : TileShapes {
  explicit AttentionTileShapes(std::int64_t height) {
    for (const int tile : {0, 1, 2, 3, 4}) set(tile, height);
    set(5, 16);
    set(6, height, 32);
    set(7, 8);
  }
};

// Adds the products of tile 4, or 6, with `count` columns at `offset` bytes.
template <int kCount>
PAGODA_INLINE void add_wide(const std::byte* const* columns, std::int64_t offset) {
  _tile_loadd(5, columns[0] + offset, 64);
  _tile_dpbf16ps(0, 4, 5);
  if constexpr (kCount > 1) {
    _tile_loadd(5, columns[1] + offset, 64);
    _tile_dpbf16ps(1, 4, 5);
  }
  if constexpr (kCount > 2) {
    _tile_loadd(5, columns[2] + offset, 64);
    _tile_dpbf16ps(2, 4, 5);
  }
  if constexpr (kCount > 3) {
    _tile_loadd(5, columns[3] + offset, 64);
    _tile_dpbf16ps(3, 4, 5);
  }
}
template <int kCount>
PAGODA_INLINE void add_narrow(const std::byte* const* columns, std::int64_t offset, std::int64_t line_bytes) {
  _tile_loadd(7, columns[0] + offset, line_bytes);
  _tile_dpbf16ps(0, 6, 7);
  if constexpr (kCount > 1) {
    _tile_loadd(7, columns[1] + offset, line_bytes);
    _tile_dpbf16ps(1, 6, 7);
  }
  if constexpr (kCount > 2) {
    _tile_loadd(7, columns[2] + offset, line_bytes);
    _tile_dpbf16ps(2, 6, 7);
  }
  if constexpr (kCount > 3) {
    _tile_loadd(7, columns[3] + offset, line_bytes);
    _tile_dpbf16ps(3, 6, 7);
  }
}
PAGODA_INLINE void clear_sums() {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}
template <int kCount>
PAGODA_INLINE void store_tiles(void* first, std::int64_t column_bytes, std::int64_t line_bytes) {
  auto* const sums = static_cast<std::byte*>(first);
  _tile_stored(0, sums, line_bytes);
  if constexpr (kCount > 1) _tile_stored(1, sums + column_bytes, line_bytes);
  if constexpr (kCount > 2) _tile_stored(2, sums + 2 * column_bytes, line_bytes);
  if constexpr (kCount > 3) _tile_stored(3, sums + 3 * column_bytes, line_bytes);
}

// Scores of one block with kCount groups. Meanwhile prefetches the groups' values if `fetches`.
template <int kCount>
void tile_scores(const Blocks& blocks, const std::byte* query, std::int64_t width,
                 const std::byte* const* keys, const std::byte* const* values, bool fetches, float* out) {
  clear_sums();
  std::int64_t d = 0;
  for (; d + 32 <= width; d += 32, query += blocks.step_bytes) {
    _tile_loadd(4, query, 64);
    add_wide<kCount>(keys, d * 32);
    if (!fetches) continue;
    for (int group = 0; group < kCount; ++group)
      for (int line = 0; line < 16; ++line) prefetch_far(values[group] + d * 32 + line * 64);
  }
  if (d < width) {
    _tile_loadd(6, query, 64);
    add_narrow<kCount>(keys, d * 32, 64);
  }
  store_tiles<kCount>(out, 64, kScoreBytes);
}

// The values of kCount vectors of dimensions, the first at `offset` bytes of a token pair, weighted over
// groups [first, last). Meanwhile prefetches the keys that come next if `fetches`.
template <int kCount>
void tile_values(const std::byte* weights, const PartitionKv& kv, std::int32_t first, std::int32_t last,
                 std::int64_t pair_bytes, std::int64_t offset, bool fetches, float* out) {
  clear_sums();
  for (std::int32_t group = first; group < last; ++group) {
    const std::byte* columns[kCount];
    for (int c = 0; c < kCount; ++c) columns[c] = kv.values[group] + offset + 64 * c;
    _tile_loadd(6, weights + group * kGroupWeightBytes, kScoreBytes);
    add_narrow<kCount>(columns, 0, pair_bytes);
    if (!fetches) continue;
    for (int line = 0; line < 8 * kCount; ++line) prefetch_far(kv.next[group] + offset * 8 + line * 64);
  }
  store_tiles<kCount>(out, kTileBytes, 64);
}

// Calls body.template operator()<kCount>(begin) for pieces of [0, count): 4 each, and fewer at the end.
template <class Body>
PAGODA_INLINE void for_columns(std::int64_t count, const Body& body) {
  std::int64_t begin = 0;
  for (; begin + kColumns <= count; begin += kColumns) body.template operator()<kColumns>(begin);
  if (count - begin == 3) body.template operator()<3>(begin);
  if (count - begin == 2) body.template operator()<2>(begin);
  if (count - begin == 1) body.template operator()<1>(begin);
}

// Converts the scores of a row-head in groups [first_group, last_group) to its softmax weights, in place.
void put_weights(const AttentionTile& t, std::int32_t row_head, std::int32_t partition,
                 std::int32_t first_group, std::int32_t last_group, float* s, const AttentionState& out) {
  const std::int32_t first = t.first_token(row_head, partition), last = t.last_token(row_head, partition);
  const float scale = t.shapes_scores() ? kLog2e : t.scale * kLog2e;
  if (t.shapes_scores()) shape_scores(t, row_head, partition, first_group, last_group, t.scale, s);
  const float top = largest_score(s, first, last) * scale;
  const F factor = set1(scale), shift = set1(-top);
  // Rounded as they are multiplied, so that the sum is over the same numbers.
  const auto weights = [&](std::int32_t begin) { return rounded(exp2(fma(load(s + begin), factor, shift))); };
  const auto kept = [&](std::int32_t begin) {
    if (begin >= last || begin + 16 <= first) return zero();
    return keep_range(weights(begin), first - begin, last - begin, zero());
  };
  F sum = zero();
  for (std::int32_t begin = first_group / 2 * 32; begin < last_group * 16; begin += 32) {
    const bool whole = first <= begin && begin + 32 <= last;
    const F a = whole ? weights(begin) : kept(begin), b = whole ? weights(begin + 16) : kept(begin + 16);
    _mm512_store_si512(reinterpret_cast<std::uint16_t*>(s) + begin, upper_words(bits_of(a), bits_of(b)));
    sum = add(sum, add(a, b));
  }
  out.max[row_head] = top;
  out.sum[row_head] = reduce_add(sum);
}

void run_partition_in_tiles(const AttentionTile& t, std::byte* work, std::int32_t partition,
                            const PartitionKv& kv, const AttentionState& out) {
  const Blocks blocks(t);
  const AttentionTileShapes shapes(blocks.height);
  write_before_tiles();
  _tile_loadconfig(&shapes);
  auto* const scores = reinterpret_cast<float*>(work + blocks.scores);
  for (std::int64_t block = 0; block < blocks.count; ++block) {
    const auto begin = static_cast<std::int32_t>(block * blocks.height);
    const std::int32_t left = t.num_row_heads() - begin,
                       end = begin + (left < blocks.height ? left : static_cast<std::int32_t>(blocks.height));
    // Positions ascend with the row-head, so the first and last row-heads determine the ends of the range.
    const std::int32_t first_group = t.first_token(begin, partition) / 16,
                       last_group = (t.last_token(end - 1, partition) + 15) / 16;
    const bool fetches = block == 0;
    write_before_tiles();
    for_columns(last_group - first_group, [&]<int kCount>(std::int64_t column) {
      const std::int64_t group = first_group + column;
      tile_scores<kCount>(blocks, work + block * blocks.query_bytes, t.width, kv.keys + group,
                          kv.values + group, fetches, scores + group * 16);
    });
    write_before_tiles();
    for (std::int32_t i = begin; i < end; ++i)
      put_weights(t, i, partition, first_group, last_group, scores + (i - begin) * kPartition, out);
    write_before_tiles();
    for_columns(t.value_width / 16, [&]<int kCount>(std::int64_t vector) {
      alignas(64) float sums[kCount][kBlockRows][16];
      tile_values<kCount>(work + blocks.scores, kv, first_group, last_group, t.value_width * std::int64_t{4},
                          vector * 64, fetches, sums[0][0]);
      write_before_tiles();
      for (std::int32_t i = begin; i < end; ++i) {
        float* const to = out.values + i * std::int64_t{t.value_width} + vector * 16;
        // Turns -0 into 0, as happens when a block attends to more groups.
        PAGODA_UNROLL
        for (int v = 0; v < kCount; ++v) store(to + v * 16, add(load(sums[v][i - begin]), zero()));
      }
    });
  }
  _tile_release();
}

}  // namespace

const AttentionKernels& AttentionKernels::amx() {
  static const AttentionKernels kernels = [] {
    AttentionKernels all = avx512;
    all.bf16.work_bytes = tiles_work_bytes;
    all.bf16.prepare = prepare_tiles;
    all.bf16.partition = run_partition_in_tiles;
    return all;
  }();
  return kernels;
}

}  // namespace pagoda::cpu
