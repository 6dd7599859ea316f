#include "kernels/attention_input.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "kernels/cpu/level.h"
#include "kernels/cpu/rows.h"
#include "kernels/device/ops.h"
#include "kernels/for_rows.h"
#include "kernels/reference/reference.h"

namespace pagoda {
namespace {

void rms_in_place(float* values, std::int64_t size, const float* weight, float eps) {
  double sum = 0;
  for (std::int64_t i = 0; i < size; ++i) sum += static_cast<double>(values[i]) * values[i];
  const auto scale = static_cast<float>(1.0 / std::sqrt(sum / static_cast<double>(size) + eps));
  for (std::int64_t i = 0; i < size; ++i)
    values[i] = values[i] * scale * (weight == nullptr ? 1.0f : weight[i]);
}

void layer_in_place(float* values, std::int64_t size, const float* weight, float eps) {
  double sum = 0, squares = 0;
  for (std::int64_t i = 0; i < size; ++i) sum += values[i];
  const double mean = sum / static_cast<double>(size);
  for (std::int64_t i = 0; i < size; ++i) squares += (values[i] - mean) * (values[i] - mean);
  const double scale = 1.0 / std::sqrt(squares / static_cast<double>(size) + eps);
  for (std::int64_t i = 0; i < size; ++i)
    values[i] = static_cast<float>((values[i] - mean) * scale) * weight[i];
}

void normalize(const AttentionInputArgs& args, float* row) {
  const HeadNorms& norms = args.norms;
  const std::int64_t size = args.head_size;
  float* const keys = row + args.num_query_heads * size;
  switch (norms.kind) {
    case HeadNorms::Kind::none:
      return;
    case HeadNorms::Kind::rms_whole:
      rms_in_place(row, args.num_query_heads * size, norms.query, norms.eps);
      if (args.num_kv_heads > 0) rms_in_place(keys, args.num_kv_heads * size, norms.key, norms.eps);
      return;
    case HeadNorms::Kind::layer:
      for (std::int64_t head = 0; head < args.num_query_heads; ++head)
        layer_in_place(row + head * size, size, norms.query + head * size, norms.eps);
      for (std::int64_t head = 0; head < args.num_kv_heads; ++head)
        layer_in_place(keys + head * size, size, norms.key + head * size, norms.eps);
      return;
    case HeadNorms::Kind::rms: {
      const auto each = [&](float* heads, std::int64_t count, const float* weight) {
        for (std::int64_t head = 0; head < count; ++head)
          rms_in_place(heads + head * size, size, weight, norms.eps);
      };
      each(row, args.num_query_heads, norms.query);
      each(keys, args.num_kv_heads, norms.key);
      if (norms.values) each(keys + args.num_kv_heads * size, args.num_kv_heads, nullptr);
      return;
    }
  }
}

}  // namespace

void attention_input(const KernelContext& context, const AttentionInputArgs& args) {
  if (args.weight != nullptr) linear(context, *args.weight, args.input, args.num_rows, args.output);
  if (on_device(context)) return device_ops::finish_attention_input(*context.device, args);
  const bool normed = args.norms.kind != HeadNorms::Kind::none;
  if (!normed && args.clip <= 0 && args.rotary_size == 0 && args.query_scale.beta == 0) return;
  if (context.backend == Backend::reference) {
    for (std::int64_t row = 0; row < args.num_rows; ++row)
      reference::finish_attention_input(args, row, floats(args.output, row));
    return;
  }
  const auto rope = cpu::kernels_of<cpu::RowKernels>(context.level).rope;
  const std::int64_t heads = args.num_query_heads + args.num_kv_heads,
                     queries = std::int64_t{args.num_query_heads} * args.head_size,
                     width = (args.num_query_heads + 2 * args.num_kv_heads) * std::int64_t{args.head_size};
  for_rows(context, args.num_rows, normed ? 4 * width : width, [&](std::int64_t index) {
    float* const row = floats(args.output, index);
    if (!args.norms.behind_rotation) normalize(args, row);
    if (args.clip > 0)
      for (std::int64_t i = 0; i < width; ++i) row[i] = std::clamp(row[i], -args.clip, args.clip);
    if (args.rotary_size > 0)
      rope(row, static_cast<std::int32_t>(heads), args.head_size, args.rotary_size,
           floats(args.cos_sin, args.turns[static_cast<std::size_t>(index)]));
    if (args.norms.behind_rotation) normalize(args, row);
    if (args.query_scale.beta == 0) return;
    const float scale = args.query_scale.at(args.positions[static_cast<std::size_t>(index)]);
    for (std::int64_t i = 0; i < queries && scale != 1; ++i) row[i] *= scale;
  });
}

}  // namespace pagoda
