#include "kernels/paged_attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/dequantize.h"
#include "kernels/kv_layout.h"
#include "kernels/reference/quantize.h"
#include "kernels/reference/reference.h"
#include "tensor/small_floats.h"

namespace pagoda::reference {
namespace {

void store(DType dtype, std::byte* at, float value) {
  if (dtype == DType::f32) {
    std::memcpy(at, &value, 4);
    return;
  }
  // Values beyond f16's range saturate at the largest finite value: infinity would turn into NaN later.
  const std::uint16_t bits =
      dtype == DType::f16 ? float_to_half(std::clamp(value, -65504.0f, 65504.0f)) : float_to_bfloat16(value);
  std::memcpy(at, &bits, 2);
}

float fetch(DType dtype, const std::byte* at) {
  if (dtype == DType::f32) {
    float value;
    std::memcpy(&value, at, 4);
    return value;
  }
  std::uint16_t bits;
  std::memcpy(&bits, at, 2);
  return dtype == DType::f16 ? half_to_float(bits) : bfloat16_to_float(bits);
}

// Writes one token's K or V of one head. `offset(d)` is KvAddress::key or value; `unit` is the layer's scale.
template <class Offset>
void write_token(const KvLayout& layout, const float* x, float unit, std::byte* piece,
                 std::int64_t scale_offset, const Offset& offset) {
  if (layout.dtype == DType::e4m3) {
    for (std::int32_t d = 0; d < layout.head_size; ++d)
      piece[offset(d)] = static_cast<std::byte>(nearest_e4m3(x[d] / unit));
    return;
  }
  if (layout.dtype != DType::i8) {
    for (std::int32_t d = 0; d < layout.head_size; ++d) store(layout.dtype, piece + offset(d), x[d]);
    return;
  }
  std::vector<std::uint8_t> q(static_cast<std::size_t>(layout.head_size));
  const float scale = quantize_kv(x, layout.head_size, q.data());
  for (std::int32_t d = 0; d < layout.head_size; ++d)
    piece[offset(d)] = static_cast<std::byte>(q[static_cast<std::size_t>(d)]);
  std::memcpy(piece + scale_offset, &scale, 4);
}

template <class Offset>
float read_element(const KvLayout& layout, float unit, const std::byte* piece, std::int32_t d,
                   std::int64_t scale_offset, const Offset& offset) {
  const std::byte* at = piece + offset(d);
  if (layout.dtype == DType::e4m3) return e4m3_value(std::to_integer<std::uint8_t>(*at)) * unit;
  if (layout.dtype != DType::i8) return fetch(layout.dtype, at);
  return static_cast<float>(std::to_integer<int>(*at) - 128) * fetch(DType::f32, piece + scale_offset);
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
    const std::int64_t source = (sequence.query_start + row) * args.key.stride +
                                static_cast<std::int64_t>(kv_head) * layout.head_size;
    write_token(layout, floats(args.key) + source, args.key_scale, keys, address.scale(slot),
                [&](std::int32_t d) { return address.key(slot, d); });
    if (layout.latent_size > 0) continue;
    write_token(layout, floats(args.value) + source, args.value_scale, values, address.scale(slot),
                [&](std::int32_t d) { return address.value(slot, d); });
  }
}

void attend(const PagedAttentionArgs& args, const AttentionSequence& sequence, std::int32_t row,
            std::int32_t query_head) {
  const KvLayout& layout = args.layout;
  const KvAddress address(layout);
  const std::int32_t d_count = layout.head_size, value_size = layout.value_size();
  const std::int32_t kv_head = query_head / (args.num_query_heads / layout.num_kv_heads);
  const std::int32_t position = sequence.context_len - sequence.num_queries + row;
  const std::int32_t first = first_seen(args, position);
  std::int32_t last = position;
  if (!args.causal) {
    last = sequence.context_len - 1;
    if (args.sliding_window > 0) last = std::min(last, position + args.sliding_window - 1);
  }
  const float* query =
      floats(args.query, sequence.query_start + row) + static_cast<std::int64_t>(query_head) * d_count;
  const auto block_of = [&](std::int32_t token) {
    return args.cache + sequence.block_table[token / layout.block_size] * address.block_stride;
  };

  std::vector<double> scores;
  double largest = -HUGE_VAL;
  for (std::int32_t token = first; token <= last; ++token) {
    const std::byte* keys = block_of(token) + address.key_piece(args.layer, kv_head);
    const std::int32_t slot = token % layout.block_size;
    double dot = 0;
    for (std::int32_t d = 0; d < d_count; ++d) {
      dot +=
          static_cast<double>(query[d]) * read_element(layout, args.key_scale, keys, d, address.scale(slot),
                                                       [&](std::int32_t i) { return address.key(slot, i); });
    }
    double score = dot * args.scale;
    if (args.softcap > 0) score = args.softcap * std::tanh(score / args.softcap);
    if (args.slopes != nullptr) score -= static_cast<double>(args.slopes[query_head]) * (position - token);
    scores.push_back(score);
    largest = std::max(largest, scores.back());
  }
  if (args.sinks != nullptr) largest = std::max<double>(largest, args.sinks[query_head]);
  const float value_scale = address.latent ? args.key_scale : args.value_scale;
  std::vector<double> sum(static_cast<std::size_t>(value_size), 0.0);
  double total = args.sinks != nullptr ? std::exp(args.sinks[query_head] - largest) : 0;
  for (std::int32_t token = first; token <= last; ++token) {
    const double weight = std::exp(scores[static_cast<std::size_t>(token - first)] - largest);
    const std::byte* values = block_of(token) + address.value_piece(args.layer, kv_head);
    const std::int32_t slot = token % layout.block_size;
    total += weight;
    for (std::int32_t d = 0; d < value_size; ++d) {
      sum[static_cast<std::size_t>(d)] +=
          weight * read_element(layout, value_scale, values, d, address.scale(slot),
                                [&](std::int32_t i) { return address.value(slot, i); });
    }
  }
  float* out = floats(args.output) +
               ((sequence.query_start + row) * static_cast<std::int64_t>(args.num_query_heads) + query_head) *
                   value_size;
  for (std::int32_t d = 0; d < value_size; ++d)
    out[d] = static_cast<float>(sum[static_cast<std::size_t>(d)] / total);
}

}  // namespace pagoda::reference
