#pragma once
// The contract between attention's dispatch (baseline code: which rows, which blocks, which thread) and
// its inner loops (one file per instruction set). Plain pointers only.
//
// The contract between attention's dispatch (baseline code: which rows, which blocks, which thread) and its
// inner loops (one file per instruction set). Plain pointers only.
//
// A row-head is one query head of one query row. Its softmax runs over partitions of 256 tokens, fixed by
// position: each yields (max, sum, weighted values), and these are merged in ascending order. The operations
// on a row-head are the same for any number of threads.
#include <cstddef>
#include <cstdint>

#include "kernels/backend.h"
#include "tensor/dtype.h"

namespace pagoda::cpu {

constexpr std::int32_t kPartition = 256;  // tokens
constexpr std::int32_t kPartitionGroups = 256 / 16;
constexpr float kE4m3Unit = 256.0f;  // kernels multiply e4m3 numbers divided by this

// Consecutive query rows of one sequence with all query heads of one KV head: row-head i is row i / group,
// head i % group.
struct AttentionTile {
  const float* query = nullptr;  // first row and head
  std::int64_t query_stride = 0;
  float* output = nullptr;  // first row and head
  std::int64_t output_stride = 0;
  std::int32_t num_rows = 0, group = 0;
  std::int32_t head_size = 0, value_size = 0;
  std::int32_t width = 0, value_width = 0;  // head_size and value_size rounded up to 16
  std::int32_t first_position = 0;          // position of the first row
  std::int32_t window = 0;
  bool chunks = false;   // as in PagedAttentionArgs
  std::int32_t end = 0;  // if positive, all of these tokens attend to each other; 0: causal
  float scale = 1, softcap = 0;
  float value_scale = 1;                            // factor of the values that the kernel reads
  const float *sinks = nullptr, *slopes = nullptr;  // for the first head, or null

  bool shapes_scores() const { return softcap > 0 || slopes != nullptr; }
  std::int32_t num_row_heads() const { return num_rows * group; }
  std::int32_t position(std::int32_t row_head) const { return first_position + row_head / group; }
  // The tokens that a row-head attends to in a partition: [first, last), relative to the partition's start.
  std::int32_t first_token(std::int32_t row_head, std::int32_t partition) const {
    return clip(first_seen(position(row_head)) - partition * kPartition);
  }
  std::int32_t first_seen(std::int32_t position) const {
    if (window <= 0) return 0;
    return chunks ? position / window * window : position - window + 1;
  }
  std::int32_t last_token(std::int32_t row_head, std::int32_t partition) const {
    return clip(end_of(position(row_head)) - partition * kPartition);
  }
  // One past the last token that a position attends to.
  std::int32_t end_of(std::int32_t position) const {
    if (end == 0) return position + 1;
    return window > 0 && position + window < end ? position + window : end;
  }
  static std::int32_t clip(std::int32_t token) {
    return token < 0 ? 0 : token > kPartition ? kPartition : token;
  }
};

// The K and V of one partition in groups of 16 tokens (kv_layout.h), with head sizes padded to `width` and
// `value_width`; null if no row of the tile attends to the group.
struct PartitionKv {
  const std::byte* keys[kPartitionGroups];
  const std::byte* values[kPartitionGroups];
  const std::byte* next[kPartitionGroups];  // keys to prefetch meanwhile
};

// Softmax state of each row-head: max, as an exponent of 2, and sum [row_heads]; values
// [row_heads][value_width], not yet divided by the sum.
struct AttentionState {
  float* max;
  float* sum;
  float* values;
};

struct AttentionKernelsOfType {
  // Size of `work` below in bytes, in whole cache lines: the queries in the form that the kernel multiplies,
  // plus temporary memory.
  std::int64_t (*work_bytes)(const AttentionTile& tile);
  // Writes the queries into `work`.
  void (*prepare)(const AttentionTile& tile, std::byte* work);
  // Computes one partition. Row-heads without a token in it get sum 0, and merge skips them.
  void (*partition)(const AttentionTile& tile, std::byte* work, std::int32_t partition, const PartitionKv& kv,
                    const AttentionState& out);
  // Derives the V of a group from its K in a latent cache, where values are prefixes of keys; widths are
  // padded. Null if the type does not support this.
  void (*values_of_keys)(const std::byte* keys, std::int32_t value_width, std::byte* values);
};

struct AttentionKernels {
  // Converts n floats to bf16 or f16 (values beyond f16's range saturate, since infinity would turn into NaN
  // later); writes up to the next multiple of 16.
  void (*to_bf16)(const float* x, std::int32_t n, std::uint16_t* out);
  void (*to_f16)(const float* x, std::int32_t n, std::uint16_t* out);
  // Converts n floats to 8 bits (kv_layout.h), up to the next multiple of 16; returns the scale.
  float (*to_int8)(const float* x, std::int32_t n, std::uint8_t* out);
  // Converts n floats, divided by `scale`, to e4m3, likewise.
  void (*to_e4m3)(const float* x, std::int32_t n, float scale, std::uint8_t* out);
  AttentionKernelsOfType f32, f16, bf16, i8, e4m3;
  void (*merge)(const AttentionTile& tile, const AttentionState& total, const AttentionState& part);
  void (*finish)(const AttentionTile& tile, const AttentionState& total);

  static const AttentionKernels portable, avx2, avx512;
  static const AttentionKernels& amx();
};

}  // namespace pagoda::cpu
