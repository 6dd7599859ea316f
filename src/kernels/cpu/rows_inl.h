// The row-wise ops over the sixteen lanes of simd_*.h.
#include <cmath>
#include <limits>

#include "kernels/cpu/lanes_inl.h"
#include "kernels/cpu/rows.h"

namespace pagoda::cpu {
namespace {

using namespace simd;  // NOLINT: this file is the body of one translation unit

// Calls body(offset, lanes) along a row; lanes is 16 except at the end.
template <class Body>
PAGODA_INLINE void for_lanes(std::int64_t n, const Body& body) {
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) body(i, std::int64_t{16});
  if (i < n) body(i, n - i);
}

// Four chains of additions, so that a row is not bound by their latency.
template <class Term>
PAGODA_INLINE float sum_row(std::int64_t n, const Term& term) {
  F sums[4] = {zero(), zero(), zero(), zero()};
  std::int64_t i = 0;
  for (; i + 64 <= n; i += 64) {
    for (int j = 0; j < 4; ++j) sums[j] = add(sums[j], term(i + 16 * j, 16));
  }
  for (; i < n; i += 16) sums[0] = add(sums[0], term(i, n - i >= 16 ? 16 : n - i));
  return reduce_add(add(add(sums[0], sums[1]), add(sums[2], sums[3])));
}

void rms_norm(const float* x, std::int64_t width, const float* weight, float eps, float* out) {
  const float sum = sum_row(width, [&](std::int64_t i, std::int64_t lanes) {
    const F v = get(x + i, lanes);
    return mul(v, v);
  });
  const F scale = set1(1.0f / std::sqrt(sum / static_cast<float>(width) + eps));
  for_lanes(width, [&](std::int64_t i, std::int64_t lanes) {
    put(out + i, mul(mul(get(x + i, lanes), scale), get(weight + i, lanes)), lanes);
  });
}

void layer_norm(const float* x, std::int64_t width, const float* weight, const float* bias, float eps,
                float* out) {
  const auto count = static_cast<float>(width);
  const float mean =
      sum_row(width, [&](std::int64_t i, std::int64_t lanes) { return get(x + i, lanes); }) / count;
  const F center = set1(mean);
  const float squares = sum_row(width, [&](std::int64_t i, std::int64_t lanes) {
    F v = sub(get(x + i, lanes), center);
    if (lanes < 16) v = keep_range(v, 0, static_cast<int>(lanes), zero());
    return mul(v, v);
  });
  const F scale = set1(1.0f / std::sqrt(squares / count + eps));
  for_lanes(width, [&](std::int64_t i, std::int64_t lanes) {
    F v = mul(sub(get(x + i, lanes), center), scale);
    if (weight != nullptr) v = mul(v, get(weight + i, lanes));
    if (bias != nullptr) v = add(v, get(bias + i, lanes));
    put(out + i, v, lanes);
  });
}

// Source: Abramowitz and Stegun 7.1.26, absolute error below 1.5e-7.
PAGODA_INLINE F erf_abs(F x) {
  const F t = div(set1(1.0f), fma(set1(0.3275911f), x, set1(1.0f)));
  F p = set1(1.061405429f);
  p = fma(p, t, set1(-1.453152027f));
  p = fma(p, t, set1(1.421413741f));
  p = fma(p, t, set1(-0.284496736f));
  p = fma(p, t, set1(0.254829592f));
  return sub(set1(1.0f), mul(mul(p, t), exp(mul(sub(zero(), x), x))));
}

template <Activation kActivation>
PAGODA_INLINE F apply(F x) {
  switch (kActivation) {
    case Activation::silu:
      return times_sigmoid(x, x);
    case Activation::gelu_tanh: {
      // 0.5 (1 + tanh u) is sigmoid(2u).
      const F u2 = mul(mul(x, set1(1.5957691216057308f)), fma(mul(x, x), set1(0.044715f), set1(1.0f)));
      return times_sigmoid(x, u2);
    }
    case Activation::gelu_erf: {
      // 0.5 x (1 + sign(x) erf(|x| / sqrt 2)) = max(x, 0) - 0.5 |x| (1 - erf(|x| / sqrt 2))
      const F size = abs(x);
      const F rest = sub(set1(1.0f), erf_abs(mul(size, set1(0.70710678118654752f))));
      return sub(max(x, zero()), mul(mul(size, set1(0.5f)), rest));
    }
    case Activation::relu:
      return max(x, zero());
    case Activation::relu2: {
      const F positive = max(x, zero());
      return mul(positive, positive);
    }
    case Activation::clamped_silu: {
      const F low = min(x, set1(7.0f));
      return times_sigmoid(low, mul(low, set1(1.702f)));
    }
  }
  return x;
}

// The factor of the activated gate.
template <Activation kActivation>
PAGODA_INLINE F factor(F up) {
  if constexpr (kActivation == Activation::clamped_silu)
    return add(max(min(up, set1(7.0f)), set1(-7.0f)), set1(1.0f));
  else
    return up;
}

template <Activation kActivation, bool kGated>
void activate_rows(const float* x, std::int64_t x_stride, std::int64_t num_rows, std::int64_t width,
                   float* out, std::int64_t out_stride) {
  for (std::int64_t row = 0; row < num_rows; ++row, x += x_stride, out += out_stride) {
    for_lanes(width, [&](std::int64_t i, std::int64_t lanes) {
      const float* from = x + (kGated ? 2 * i : i);
      F v = apply<kActivation>(load(from));
      if (kGated) v = mul(v, factor<kActivation>(load(from + 16)));
      put(out + i, v, lanes);
    });
  }
}

template <bool kGated, class... Args>
void activate_as(Activation activation, Args... args) {
  switch (activation) {
    case Activation::silu:
      return activate_rows<Activation::silu, kGated>(args...);
    case Activation::gelu_tanh:
      return activate_rows<Activation::gelu_tanh, kGated>(args...);
    case Activation::gelu_erf:
      return activate_rows<Activation::gelu_erf, kGated>(args...);
    case Activation::relu:
      return activate_rows<Activation::relu, kGated>(args...);
    case Activation::relu2:
      return activate_rows<Activation::relu2, kGated>(args...);
    case Activation::clamped_silu:
      return activate_rows<Activation::clamped_silu, kGated>(args...);
  }
}

void activate(Activation activation, bool gated, const float* x, std::int64_t x_stride, std::int64_t num_rows,
              std::int64_t width, float* out, std::int64_t out_stride) {
  if (gated) return activate_as<true>(activation, x, x_stride, num_rows, width, out, out_stride);
  activate_as<false>(activation, x, x_stride, num_rows, width, out, out_stride);
}

void rope(float* x, std::int32_t num_heads, std::int32_t head_size, std::int32_t rotary_size,
          const float* cos_sin) {
  const std::int32_t half = rotary_size / 2;
  for (std::int32_t head = 0; head < num_heads; ++head) {
    float* low = x + static_cast<std::int64_t>(head) * head_size;
    float* high = low + half;
    for_lanes(half, [&](std::int64_t i, std::int64_t lanes) {
      const F a = get(low + i, lanes), b = get(high + i, lanes);
      const F c = get(cos_sin + i, lanes), s = get(cos_sin + half + i, lanes);
      put(low + i, sub(mul(a, c), mul(b, s)), lanes);
      put(high + i, add(mul(b, c), mul(a, s)), lanes);
    });
  }
}

void heads_to_unit(float* x, std::int32_t num_heads, std::int32_t head_size, float eps, float scale) {
  for (std::int32_t head = 0; head < num_heads; ++head, x += head_size) {
    const float sum = sum_row(head_size, [&](std::int64_t i, std::int64_t lanes) {
      const F v = get(x + i, lanes);
      return mul(v, v);
    });
    const F factor = set1(scale / std::sqrt(sum + eps));
    for_lanes(head_size,
              [&](std::int64_t i, std::int64_t lanes) { put(x + i, mul(get(x + i, lanes), factor), lanes); });
  }
}

template <bool kGateFirst>
void gated_rms_norm_as(const GatedNorm& norm, float* x, const float* gate) {
  const std::int64_t size = norm.group_size;
  const auto gated = [&](F v, std::int64_t i, std::int64_t lanes) {
    const F g = get(gate + i, lanes);
    return times_sigmoid(mul(v, g), g);
  };
  const float* weight = norm.weight;
  for (std::int32_t group = 0; group < norm.num_groups; ++group, x += size, gate += size) {
    if (kGateFirst || weight == nullptr)
      for_lanes(size, [&](std::int64_t i, std::int64_t lanes) {
        put(x + i, gated(get(x + i, lanes), i, lanes), lanes);
      });
    if (weight == nullptr) continue;
    const float sum = sum_row(size, [&](std::int64_t i, std::int64_t lanes) {
      const F v = get(x + i, lanes);
      return mul(v, v);
    });
    const F scale = set1(1.0f / std::sqrt(sum / static_cast<float>(size) + norm.eps));
    for_lanes(size, [&](std::int64_t i, std::int64_t lanes) {
      const F v = mul(mul(get(x + i, lanes), scale), get(weight + i, lanes));
      put(x + i, kGateFirst ? v : gated(v, i, lanes), lanes);
    });
    if (norm.own_weights) weight += size;
  }
}

void gated_rms_norm(const GatedNorm& norm, float* x, const float* gate) {
  norm.gate_first ? gated_rms_norm_as<true>(norm, x, gate) : gated_rms_norm_as<false>(norm, x, gate);
}

void times_sigmoid_row(float* x, const float* gate, std::int64_t width) {
  for_lanes(width, [&](std::int64_t i, std::int64_t lanes) {
    put(x + i, times_sigmoid(get(x + i, lanes), get(gate + i, lanes)), lanes);
  });
}

float max_row(const float* x, std::int64_t n) {
  F largest = set1(-std::numeric_limits<float>::infinity());
  for_lanes(n, [&](std::int64_t i, std::int64_t lanes) {
    F v = get(x + i, lanes);
    if (lanes < 16) v = keep_range(v, 0, static_cast<int>(lanes), largest);
    largest = max(v, largest);
  });
  return reduce_max(largest);
}

float sum_exp(const float* x, std::int64_t n, float shift) {
  const F offset = set1(shift);
  return sum_row(n, [&](std::int64_t i, std::int64_t lanes) {
    const F e = exp(sub(get(x + i, lanes), offset));
    return lanes < 16 ? keep_range(e, 0, static_cast<int>(lanes), zero()) : e;
  });
}

std::int64_t find_greater(const float* x, std::int64_t begin, std::int64_t n, float threshold) {
  const F bound = set1(threshold);
  for (std::int64_t i = begin; i < n; i += 16) {
    const std::int64_t lanes = n - i;
    unsigned mask = greater(lanes >= 16 ? load(x + i) : load_n(x + i, lanes), bound);
    if (lanes < 16) mask &= (1u << lanes) - 1u;
    if (mask != 0) return i + __builtin_ctz(mask);
  }
  return n;
}

std::int64_t count_greater(const float* x, std::int64_t n, float threshold) {
  const F bound = set1(threshold);
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < n; i += 16) {
    const std::int64_t lanes = n - i;
    unsigned mask = greater(lanes >= 16 ? load(x + i) : load_n(x + i, lanes), bound);
    if (lanes < 16) mask &= (1u << lanes) - 1u;
    count += __builtin_popcount(mask);
  }
  return count;
}

constexpr RowKernels kRowKernels = {.rms_norm = rms_norm,
                                    .layer_norm = layer_norm,
                                    .activate = activate,
                                    .rope = rope,
                                    .heads_to_unit = heads_to_unit,
                                    .gated_rms_norm = gated_rms_norm,
                                    .times_sigmoid = times_sigmoid_row,
                                    .max = max_row,
                                    .sum_exp = sum_exp,
                                    .find_greater = find_greater,
                                    .count_greater = count_greater};

}  // namespace
}  // namespace pagoda::cpu
