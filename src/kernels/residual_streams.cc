#include "kernels/residual_streams.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "kernels/device/ops.h"
#include "kernels/for_rows.h"
#include "kernels/reference/residual_streams.h"
#include "kernels/rows.h"

namespace pagoda {
namespace {

bool streams_by_reference(const KernelContext& context) { return context.backend == Backend::reference; }

// The root mean square of a row, at least `least`.
double magnitude(const float* x, std::int64_t width, double least) {
  double sum = 0;
  for (std::int64_t i = 0; i < width; ++i) sum += static_cast<double>(x[i]) * x[i];
  return std::sqrt(std::max(sum / static_cast<double>(width), least));
}

constexpr double kMinSquare = 1e-5;  // lower bound of the divisor

}  // namespace

void turn_modes(const KernelContext& context, const StreamShape& shape, const Buffer& modes) {
  if (on_device(context))
    return device_ops::row_op(*context.device, {shape.num_rows, shape.streams},
                              {.op = device::RowOp::squash,
                               .y = device_ops::strided(modes),
                               .factor = static_cast<float>(shape.width)});
  for_rows(context, shape.num_rows, 16 * shape.streams, [&](std::int64_t row) {
    float* const own = floats(modes, row);
    for (std::int64_t i = 0; i < shape.streams; ++i)
      own[i] = std::tanh(own[i] / static_cast<float>(shape.width));
  });
}

void match_magnitude(const KernelContext& context, const StreamShape& shape, const Buffer& from,
                     const Buffer& like, StreamSum sum, const Buffer& to) {
  if (on_device(context)) return device_ops::match_magnitude(*context.device, shape, from, like, sum, to);
  const std::int64_t width = shape.width;
  for_rows(context, shape.num_rows, 4 * width, [&](std::int64_t row) {
    if (streams_by_reference(context)) return reference::match_magnitude(shape, from, like, sum, to, row);
    const float* const x = floats(from, row);
    float* const y = floats(to, row);
    const auto scale =
        static_cast<float>(magnitude(floats(like, row), width, 0) / magnitude(x, width, kMinSquare));
    if (sum == StreamSum::none) {
      for (std::int64_t j = 0; j < width; ++j) y[j] = scale * x[j];
      return;
    }
    for (std::int64_t j = 0; j < width; ++j) {
      y[j] += scale * x[j];
      if (sum == StreamSum::added_last) y[j] /= static_cast<float>(shape.streams);
    }
  });
}

void predict_streams(const KernelContext& context, const StreamShape& shape, const float* factors,
                     const Buffer& modes, const Buffer& x, const Buffer& others, const Buffer& predicted) {
  if (on_device(context))
    return device_ops::predict_streams(*context.device, shape, factors, modes, x, others, predicted);
  CHECK(shape.streams <= kMaxResidualStreams);
  const std::int64_t streams = shape.streams, width = shape.width;
  for_rows(context, shape.num_rows, streams * streams * width, [&](std::int64_t row) {
    if (streams_by_reference(context))
      return reference::predict_streams(shape, factors, modes, x, others, predicted, row);
    std::array<float, kMaxResidualStreams * kMaxResidualStreams> mix = {};  // [to, from]
    for (std::int64_t i = 0; i < streams * streams; ++i)
      for (std::int64_t k = 0; k < streams; ++k)
        mix[static_cast<std::size_t>(i)] += factors[i * streams + k] * floats(modes, row)[k];
    float *const own = floats(x, row), *const rest = floats(others, row);
    std::array<float, kMaxResidualStreams> from = {};
    for (std::int64_t j = 0; j < width; ++j) {
      from[0] = own[j];
      for (std::int64_t k = 1; k < streams; ++k)
        from[static_cast<std::size_t>(k)] = rest[(k - 1) * width + j];
      for (std::int64_t i = 0; i < streams; ++i) {
        float sum = from[static_cast<std::size_t>(i)];
        for (std::int64_t k = 0; k < streams; ++k)
          sum += mix[static_cast<std::size_t>(i * streams + k)] * from[static_cast<std::size_t>(k)];
        (i == 0 ? own[j] : rest[(i - 1) * width + j]) = sum;
      }
    }
    std::memcpy(floats(predicted, row), own, static_cast<std::size_t>(width) * sizeof(float));
  });
}

void correct_streams(const KernelContext& context, const StreamShape& shape, const float* factors,
                     const Buffer& modes, const Buffer& predicted, const Buffer& x, const Buffer& others) {
  if (on_device(context))
    return device_ops::correct_streams(*context.device, shape, factors, modes, predicted, x, others);
  const std::int64_t streams = shape.streams, width = shape.width;
  for_rows(context, shape.num_rows, streams * width, [&](std::int64_t row) {
    if (streams_by_reference(context))
      return reference::correct_streams(shape, factors, modes, predicted, x, others, row);
    float* const own = floats(x, row);
    const float *const before = floats(predicted, row), *const mode = floats(modes, row);
    // In descending order: the first stream, which all others read, comes last.
    for (std::int64_t i = streams - 1; i >= 0; --i) {
      float factor = 1;
      for (std::int64_t k = 0; k < streams; ++k) factor += factors[i * streams + k] * mode[k];
      float* const to = i == 0 ? own : floats(others, row) + (i - 1) * width;
      const float* const base = i == 0 ? before : to;
      for (std::int64_t j = 0; j < width; ++j) to[j] = base[j] + factor * (own[j] - before[j]);
    }
  });
}

void add_to_streams(const KernelContext& context, const StreamShape& shape, const Buffer& y,
                    const Buffer& others) {
  if (on_device(context)) {
    for (std::int64_t stream = 0; stream + 1 < shape.streams; ++stream)
      add_rows(context, {shape.num_rows, shape.width}, 1, y, others.at(0, stream * shape.width));
    return;
  }
  const std::int64_t width = shape.width;
  for_rows(context, shape.num_rows, shape.streams * width, [&](std::int64_t row) {
    const float* const from = floats(y, row);
    for (std::int64_t stream = 0; stream + 1 < shape.streams; ++stream) {
      float* const to = floats(others, row) + stream * width;
      for (std::int64_t j = 0; j < width; ++j) to[j] += from[j];
    }
  });
}

}  // namespace pagoda
