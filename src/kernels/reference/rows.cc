#include "kernels/reference/rows.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace pagoda::reference {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

}  // namespace

void add_share(RowShape shape, float factor, const Buffer& gate, const Buffer& from, const Buffer& to,
               std::int64_t row) {
  const double share = factor * (gate ? sigmoid(*floats(gate, row)) : 1.0);
  for (std::int64_t i = 0; i < shape.width; ++i)
    floats(to, row)[i] = static_cast<float>(floats(to, row)[i] + share * floats(from, row)[i]);
}

void times_gates(RowShape shape, GateFunction function, std::int64_t num_gates, const Buffer& gate,
                 const Buffer& x, std::int64_t row) {
  for (std::int64_t i = 0; i < shape.width; ++i) {
    const double own = floats(gate, row)[i * num_gates / shape.width];
    const double factor = function == GateFunction::sigmoid ? sigmoid(own) : softplus(own);
    floats(x, row)[i] = static_cast<float>(floats(x, row)[i] * factor);
  }
}

void cap(std::int64_t width, double cap, float* x) {
  for (std::int64_t i = 0; i < width; ++i) x[i] = static_cast<float>(cap * std::tanh(x[i] / cap));
}

void xielu(std::int64_t width, const XieluCurve& curve, float* x) {
  for (std::int64_t i = 0; i < width; ++i) {
    const double v = x[i], low = std::min(v, static_cast<double>(curve.eps));
    const double bent = v > 0 ? curve.positive * v * v : curve.negative * (std::exp(low) - 1 - v);
    x[i] = static_cast<float>(bent + curve.beta * v);
  }
}

void sparse_gate(const SparseGate& how, std::int64_t num_rows, const Buffer& gates, const Buffer& up,
                 std::int64_t row) {
  std::vector<double> all, own;
  const float* part = floats(gates);
  for (std::size_t i = 0; i < how.widths.size(); ++i) {
    const std::vector<double> columns(part + row * how.widths[i], part + (row + 1) * how.widths[i]);
    all.insert(all.end(), columns.begin(), columns.end());
    if (i == how.own) own = columns;
    part += num_rows * how.widths[i];
  }
  double mean = 0, variance = 0;
  for (const double gate : all) mean += gate / static_cast<double>(all.size());
  for (const double gate : all) variance += (gate - mean) * (gate - mean) / static_cast<double>(all.size());
  const double cutoff = mean + how.deviations * std::sqrt(variance);
  for (std::size_t i = 0; i < own.size(); ++i) {
    const double x = std::max(0.0, own[i] - cutoff);
    const double inner = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
    float& out = floats(up, row)[i];
    out = static_cast<float>(out * 0.5 * x * (1 + std::tanh(inner)));
  }
}

void recurrent_gates(const RecurrentGates& gates, float* weight, float* decay) {
  for (std::int64_t head = 0; head < gates.num_heads; ++head) {
    const double bias = gates.bias[head], rate = gates.rate[head];
    if (gates.delta_rule) {
      weight[head] = static_cast<float>(sigmoid(weight[head]));
      decay[head] = static_cast<float>(std::exp(rate * softplus(decay[head] + bias)));
    } else {
      const double step = softplus(weight[head] + bias);
      weight[head] = static_cast<float>(std::min(std::max(step, static_cast<double>(gates.least_step)),
                                                 static_cast<double>(gates.most_step)));
      decay[head] = static_cast<float>(std::exp(rate * weight[head]));
    }
  }
}

}  // namespace pagoda::reference
