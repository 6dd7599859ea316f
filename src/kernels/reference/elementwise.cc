#include "kernels/elementwise.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/reference/reference.h"

namespace pagoda::reference {

void rms_norm(const float* x, std::int64_t width, const float* weight, float eps, float* out) {
  double sum = 0;
  for (std::int64_t i = 0; i < width; ++i) sum += static_cast<double>(x[i]) * x[i];
  const double scale = 1.0 / std::sqrt(sum / static_cast<double>(width) + eps);
  for (std::int64_t i = 0; i < width; ++i) out[i] = static_cast<float>(x[i] * scale * weight[i]);
}

void layer_norm(const float* x, std::int64_t width, const float* weight, const float* bias, float eps,
                float* out) {
  double sum = 0, squares = 0;
  for (std::int64_t i = 0; i < width; ++i) sum += x[i];
  const double mean = sum / static_cast<double>(width);
  for (std::int64_t i = 0; i < width; ++i) squares += (x[i] - mean) * (x[i] - mean);
  const double scale = 1.0 / std::sqrt(squares / static_cast<double>(width) + eps);
  for (std::int64_t i = 0; i < width; ++i) {
    double value = (x[i] - mean) * scale;
    if (weight != nullptr) value *= weight[i];
    if (bias != nullptr) value += bias[i];
    out[i] = static_cast<float>(value);
  }
}

float activation(Activation activation, float x) {
  const double v = x;
  switch (activation) {
    case Activation::silu:
      return static_cast<float>(v / (1.0 + std::exp(-v)));
    case Activation::gelu_tanh: {
      const double inner = std::sqrt(2.0 / std::numbers::pi) * (v + 0.044715 * v * v * v);
      return static_cast<float>(0.5 * v * (1.0 + std::tanh(inner)));
    }
    case Activation::gelu_erf:
      return static_cast<float>(0.5 * v * (1.0 + std::erf(v / std::numbers::sqrt2)));
    case Activation::relu:
      return x < 0 ? 0.0f : x;
    case Activation::relu2:
      return x < 0 ? 0.0f : x * x;
    case Activation::clamped_silu: {
      const double low = std::min(v, 7.0);
      return static_cast<float>(low / (1.0 + std::exp(-1.702 * low)));
    }
  }
  return x;
}

float gate_factor(Activation activation, float up) {
  return activation == Activation::clamped_silu ? std::clamp(up, -7.0f, 7.0f) + 1 : up;
}

void rope(float* x, std::int32_t num_heads, std::int32_t head_size, std::int32_t rotary_size,
          const float* cos_sin) {
  const std::int32_t half = rotary_size / 2;
  for (std::int32_t head = 0; head < num_heads; ++head) {
    float* v = x + static_cast<std::int64_t>(head) * head_size;
    for (std::int32_t i = 0; i < half; ++i) {
      const float a = v[i], b = v[i + half], c = cos_sin[i], s = cos_sin[i + half];
      v[i] = a * c - b * s;
      v[i + half] = b * c + a * s;
    }
  }
}

void heads_to_unit(float* x, std::int32_t num_heads, std::int32_t head_size, float eps, float scale) {
  for (std::int32_t head = 0; head < num_heads; ++head, x += head_size) {
    double sum = 0;
    for (std::int32_t i = 0; i < head_size; ++i) sum += static_cast<double>(x[i]) * x[i];
    for (std::int32_t i = 0; i < head_size; ++i)
      x[i] = static_cast<float>(scale * x[i] / std::sqrt(sum + eps));
  }
}

void gated_rms_norm(const GatedNorm& norm, float* x, const float* gate) {
  const auto silu = [](double v) { return v / (1.0 + std::exp(-v)); };
  for (std::int32_t group = 0; group < norm.num_groups; ++group) {
    double sum = 0;
    for (std::int32_t i = 0; i < norm.group_size; ++i) {
      if (norm.gate_first) x[i] = static_cast<float>(x[i] * silu(gate[i]));
      sum += static_cast<double>(x[i]) * x[i];
    }
    const std::ptrdiff_t first = norm.own_weights ? static_cast<std::ptrdiff_t>(group) * norm.group_size : 0;
    for (std::int32_t i = 0; i < norm.group_size; ++i) {
      double value = x[i];
      if (norm.weight != nullptr)
        value *= norm.weight[first + i] / std::sqrt(sum / norm.group_size + norm.eps);
      if (!norm.gate_first) value *= silu(gate[i]);
      x[i] = static_cast<float>(value);
    }
    x += norm.group_size;
    gate += norm.group_size;
  }
}

void times_sigmoid(float* x, const float* gate, std::int64_t width) {
  for (std::int64_t i = 0; i < width; ++i)
    x[i] = static_cast<float>(x[i] / (1.0 + std::exp(-static_cast<double>(gate[i]))));
}

}  // namespace pagoda::reference
