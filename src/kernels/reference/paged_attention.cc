#include "kernels/paged_attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/dequantize.h"
#include "kernels/kv_layout.h"
#include "kernels/reference/reference.h"

namespace pagoda::reference {
namespace {

void store(DType dtype, std::byte* piece, std::int64_t index, float value) {
  if (dtype == DType::f32) {
    std::memcpy(piece + index * 4, &value, 4);
    return;
  }
  // A value beyond f16's range becomes the largest finite one: infinity would turn into NaN later.
  const std::uint16_t bits =
      dtype == DType::f16 ? float_to_half(std::clamp(value, -65504.0f, 65504.0f)) : float_to_bfloat16(value);
  std::memcpy(piece + index * 2, &bits, 2);
}

float fetch(DType dtype, const std::byte* piece, std::int64_t index) {
  if (dtype == DType::f32) {
    float value;
    std::memcpy(&value, piece + index * 4, 4);
    return value;
  }
  std::uint16_t bits;
  std::memcpy(&bits, piece + index * 2, 2);
  return dtype == DType::f16 ? half_to_float(bits) : bfloat16_to_float(bits);
}

}  // namespace

void write_kv(const PagedAttentionArgs& args, const AttentionSequence& sequence, std::int32_t kv_head) {
  const KvLayout& layout = args.layout;
  const KvAddress address(layout);
  for (std::int32_t row = 0; row < sequence.num_queries; ++row) {
    const std::int32_t position = sequence.context_len - sequence.num_queries + row;
    const std::int32_t slot = position % layout.block_size;
    std::byte* block = args.cache + sequence.block_table[position / layout.block_size] * address.block_stride;
    std::byte* keys = block + address.key_piece(args.layer, kv_head);
    std::byte* values = block + address.value_piece(args.layer, kv_head);
    const std::int64_t source = (sequence.query_start + row) * args.row_stride +
                                static_cast<std::int64_t>(kv_head) * layout.head_size;
    for (std::int32_t d = 0; d < layout.head_size; ++d) {
      store(layout.dtype, keys, address.key(slot, d), args.key[source + d]);
      store(layout.dtype, values, address.value(slot, d), args.value[source + d]);
    }
  }
}

void attend(const PagedAttentionArgs& args, const AttentionSequence& sequence, std::int32_t row,
            std::int32_t query_head) {
  const KvLayout& layout = args.layout;
  const KvAddress address(layout);
  const std::int32_t d_count = layout.head_size;
  const std::int32_t kv_head = query_head / (args.num_query_heads / layout.num_kv_heads);
  const std::int32_t position = sequence.context_len - sequence.num_queries + row;
  const std::int32_t first = args.sliding_window > 0 ? std::max(0, position - args.sliding_window + 1) : 0;
  const float* query = args.query + (sequence.query_start + row) * args.row_stride +
                       static_cast<std::int64_t>(query_head) * d_count;
  const auto block_of = [&](std::int32_t token) {
    return args.cache + sequence.block_table[token / layout.block_size] * address.block_stride;
  };

  std::vector<double> scores;
  double largest = -HUGE_VAL;
  for (std::int32_t token = first; token <= position; ++token) {
    const std::byte* keys = block_of(token) + address.key_piece(args.layer, kv_head);
    double dot = 0;
    for (std::int32_t d = 0; d < d_count; ++d) {
      dot += static_cast<double>(query[d]) *
             fetch(layout.dtype, keys, address.key(token % layout.block_size, d));
    }
    scores.push_back(dot * args.scale);
    largest = std::max(largest, scores.back());
  }
  std::vector<double> sum(static_cast<std::size_t>(d_count), 0.0);
  double total = 0;
  for (std::int32_t token = first; token <= position; ++token) {
    const double weight = std::exp(scores[static_cast<std::size_t>(token - first)] - largest);
    const std::byte* values = block_of(token) + address.value_piece(args.layer, kv_head);
    total += weight;
    for (std::int32_t d = 0; d < d_count; ++d) {
      sum[static_cast<std::size_t>(d)] +=
          weight * fetch(layout.dtype, values, address.value(token % layout.block_size, d));
    }
  }
  float* out =
      args.output +
      ((sequence.query_start + row) * static_cast<std::int64_t>(args.num_query_heads) + query_head) * d_count;
  for (std::int32_t d = 0; d < d_count; ++d)
    out[d] = static_cast<float>(sum[static_cast<std::size_t>(d)] / total);
}

}  // namespace pagoda::reference
