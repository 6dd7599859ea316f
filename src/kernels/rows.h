#pragma once
// Small row-wise ops between the products of a layer: float32 [num_rows, width]; the rows of a buffer may be
// farther apart than `width`. Ops with an implementation per instruction set are in elementwise.h. Each
// element is computed from its own row alone, in one fixed order. Planned users: the hidden rows that
// drafters tap (copy_rows, gather_rows), a second model in a runner, vision towers.
#include <cstdint>
#include <span>

#include "kernels/backend.h"
#include "kernels/buffer.h"

namespace pagoda {

struct RowShape {
  std::int64_t num_rows = 0, width = 0;
};

void zero_rows(const KernelContext& context, RowShape shape, const Buffer& out);
void copy_rows(const KernelContext& context, RowShape shape, const Buffer& from, const Buffer& to);
// Row i of x becomes its row `rows[i]`; except on devices, `rows` must be ascending.
void gather_rows(const KernelContext& context, std::span<const std::int32_t> rows, std::int64_t width,
                 const Buffer& x);

void scale_rows(const KernelContext& context, RowShape shape, float factor, const Buffer& x);
// to += factor * from
void add_rows(const KernelContext& context, RowShape shape, float factor, const Buffer& from,
              const Buffer& to);
// to += a + b
void add_sum(const KernelContext& context, RowShape shape, const Buffer& a, const Buffer& b,
             const Buffer& to);
// to = (to + from) * factor
void join_rows(const KernelContext& context, RowShape shape, const Buffer& from, float factor,
               const Buffer& to);
// x += vector [width]
void add_vector(const KernelContext& context, RowShape shape, const float* vector, const Buffer& x);
// out = x * vector [width]
void times_vector(const KernelContext& context, RowShape shape, const Buffer& x, const float* vector,
                  const Buffer& out);
// to += factor * sigmoid(gate) * from; gate has one number per row, or is empty, which means a factor of 1.
void add_share(const KernelContext& context, RowShape shape, float factor, const Buffer& gate,
               const Buffer& from, const Buffer& to);
// x *= (a + b_factor * b) * factor
void times_sum(const KernelContext& context, RowShape shape, const Buffer& a, float b_factor, const Buffer& b,
               float factor, const Buffer& x);
// x *= f(gate); each of the `num_gates` gates serves width / num_gates adjacent elements.
enum class GateFunction { softplus, sigmoid };
void times_gates(const KernelContext& context, RowShape shape, GateFunction function, std::int64_t num_gates,
                 const Buffer& gate, const Buffer& x);
// x *= 1 + beta * ln(1 + floor((p + offset) / positions)) at position p (Llama 4's temperature of queries)
struct PositionScale {
  float beta = 0;
  std::int32_t offset = 0, positions = 1;
  float at(std::int32_t position) const;
};
void scale_by_position(const KernelContext& context, RowShape shape, const PositionScale& scale,
                       std::span<const std::int32_t> positions, const Buffer& x);
// x = cap * tanh(x / cap)
void cap_rows(const KernelContext& context, RowShape shape, float cap, const Buffer& x);

// xIELU (arXiv 2411.13010) in place:
//   x > 0: positive x^2 + beta x      else: negative (e^min(x, eps) - 1 - x) + beta x
struct XieluCurve {
  float beta = 0, eps = 0, positive = 0, negative = 0;
};
void xielu(const KernelContext& context, RowShape shape, const XieluCurve& curve, const Buffer& x);

// up = f(gate - cutoff) * up where a gate exceeds the cutoff, otherwise 0; f: tanh-approximated GELU. The
// cutoff is `deviations` standard deviations above the mean of all gates of the row (Gemma 3n). The gates are
// stored in consecutive parts, each [num_rows, its width]; part `own` holds the gates of up's columns.
struct SparseGate {
  double deviations = 0;
  std::span<const std::int64_t> widths = {};  // by part
  std::size_t own = 0;
};
void sparse_gate(const KernelContext& context, const SparseGate& how, std::int64_t num_rows,
                 const Buffer& gates, const Buffer& up);

// Computes a recurrent layer's gates from its product, in place, per head (linear_attention.h):
//   delta rule   weight = sigmoid(weight)                     decay = exp(rate * softplus(decay + bias))
//   Mamba-2      weight = softplus(weight + bias), clamped    decay = exp(rate * weight)
struct RecurrentGates {
  bool delta_rule = false;
  std::int64_t num_heads = 0;
  const float *rate = nullptr, *bias = nullptr;  // [num_heads]
  float least_step = 0, most_step = 0;
};
void recurrent_gates(const KernelContext& context, const RecurrentGates& gates, std::int64_t num_rows,
                     const Buffer& weight, const Buffer& decay);

// Row i: the cosines, then the sines, of the angles positions[i] * frequencies, all times `amplitude`.
void fill_rotations(const KernelContext& context, std::span<const std::int32_t> positions,
                    std::span<const double> frequencies, double amplitude, const Buffer& out);

}  // namespace pagoda
