#include "kernels/attention_input.h"

#include <algorithm>
#include <cmath>

#include "kernels/reference/reference.h"

namespace pagoda::reference {
namespace {

// RMS or layer norm of `size` values in place; weight may be null.
void norm(float* x, std::int64_t size, const float* weight, double eps, bool centred) {
  double mean = 0, squares = 0;
  for (std::int64_t i = 0; i < size; ++i) mean += centred ? x[i] / static_cast<double>(size) : 0;
  for (std::int64_t i = 0; i < size; ++i) squares += (x[i] - mean) * (x[i] - mean);
  for (std::int64_t i = 0; i < size; ++i)
    x[i] = static_cast<float>((x[i] - mean) / std::sqrt(squares / static_cast<double>(size) + eps) *
                              (weight != nullptr ? weight[i] : 1.0));
}

void norm_heads(const AttentionInputArgs& args, float* row) {
  const HeadNorms& norms = args.norms;
  if (norms.kind == HeadNorms::Kind::none) return;
  const bool centred = norms.kind == HeadNorms::Kind::layer;
  const auto part = [&](std::int64_t first, std::int64_t heads, const float* weight) {
    if (norms.kind == HeadNorms::Kind::rms_whole) {
      if (heads > 0) norm(row + first * args.head_size, heads * args.head_size, weight, norms.eps, false);
      return;
    }
    for (std::int64_t head = 0; head < heads; ++head)
      norm(row + (first + head) * args.head_size, args.head_size,
           centred ? weight + head * args.head_size : weight, norms.eps, centred);
  };
  part(0, args.num_query_heads, norms.query);
  part(args.num_query_heads, args.num_kv_heads, norms.key);
  if (norms.values) part(args.num_query_heads + args.num_kv_heads, args.num_kv_heads, nullptr);
}

}  // namespace

void finish_attention_input(const AttentionInputArgs& args, std::int64_t index, float* row) {
  const std::int64_t size = args.head_size, heads = args.num_query_heads + args.num_kv_heads;
  if (!args.norms.behind_rotation) norm_heads(args, row);
  if (args.clip > 0)
    for (std::int64_t i = 0; i < (heads + args.num_kv_heads) * size; ++i)
      row[i] = std::min(std::max(row[i], -args.clip), args.clip);
  if (args.rotary_size > 0)
    rope(row, static_cast<std::int32_t>(heads), args.head_size, args.rotary_size,
         floats(args.cos_sin, args.turns[static_cast<std::size_t>(index)]));
  if (args.norms.behind_rotation) norm_heads(args, row);
  if (args.query_scale.beta == 0) return;
  const std::int64_t position = args.positions[static_cast<std::size_t>(index)] + args.query_scale.offset;
  const double times = std::floor(static_cast<double>(position) / args.query_scale.positions);
  for (std::int64_t i = 0; i < args.num_query_heads * size; ++i)
    row[i] = static_cast<float>(row[i] * (1 + args.query_scale.beta * std::log1p(times)));
}

}  // namespace pagoda::reference
