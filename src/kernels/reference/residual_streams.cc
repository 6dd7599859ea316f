#include "kernels/reference/residual_streams.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace pagoda::reference {
namespace {

double root_mean_square(const float* x, std::int64_t width, double least) {
  double sum = 0;
  for (std::int64_t j = 0; j < width; ++j) sum += static_cast<double>(x[j]) * x[j];
  return std::sqrt(std::max(sum / static_cast<double>(width), least));
}

// Element `j` of stream `i`.
float& element(const StreamShape& shape, const Buffer& x, const Buffer& others, std::int64_t row,
               std::int64_t i, std::int64_t j) {
  return i == 0 ? floats(x, row)[j] : floats(others, row)[(i - 1) * shape.width + j];
}

}  // namespace

void match_magnitude(const StreamShape& shape, const Buffer& from, const Buffer& like, StreamSum sum,
                     const Buffer& to, std::int64_t row) {
  const double scale = root_mean_square(floats(like, row), shape.width, 0) /
                       root_mean_square(floats(from, row), shape.width, 1e-5);
  for (std::int64_t j = 0; j < shape.width; ++j) {
    double value = scale * floats(from, row)[j];
    if (sum != StreamSum::none) value += floats(to, row)[j];
    if (sum == StreamSum::added_last) value /= static_cast<double>(shape.streams);
    floats(to, row)[j] = static_cast<float>(value);
  }
}

void predict_streams(const StreamShape& shape, const float* factors, const Buffer& modes, const Buffer& x,
                     const Buffer& others, const Buffer& predicted, std::int64_t row) {
  const std::int64_t streams = shape.streams;
  for (std::int64_t j = 0; j < shape.width; ++j) {
    std::vector<double> sums;
    for (std::int64_t i = 0; i < streams; ++i) {
      double sum = element(shape, x, others, row, i, j);
      for (std::int64_t k = 0; k < streams; ++k)
        for (std::int64_t mode = 0; mode < streams; ++mode)
          sum += static_cast<double>(factors[(i * streams + k) * streams + mode]) * floats(modes, row)[mode] *
                 element(shape, x, others, row, k, j);
      sums.push_back(sum);
    }
    for (std::int64_t i = 0; i < streams; ++i)
      element(shape, x, others, row, i, j) = static_cast<float>(sums[static_cast<std::size_t>(i)]);
    floats(predicted, row)[j] = floats(x, row)[j];
  }
}

void correct_streams(const StreamShape& shape, const float* factors, const Buffer& modes,
                     const Buffer& predicted, const Buffer& x, const Buffer& others, std::int64_t row) {
  for (std::int64_t j = 0; j < shape.width; ++j) {
    const double change = static_cast<double>(floats(x, row)[j]) - floats(predicted, row)[j];
    floats(x, row)[j] = floats(predicted, row)[j];
    for (std::int64_t i = 0; i < shape.streams; ++i) {
      double factor = 1;
      for (std::int64_t k = 0; k < shape.streams; ++k)
        factor += static_cast<double>(factors[i * shape.streams + k]) * floats(modes, row)[k];
      float& to = element(shape, x, others, row, i, j);
      to = static_cast<float>(to + factor * change);
    }
  }
}

}  // namespace pagoda::reference
