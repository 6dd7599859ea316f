#pragma once
// A mixture of experts: routing, which chooses some experts for each row; the products of all chosen experts
// with the rows that chose them, as one piece of work; and the weighted sum of the results. Not here: the
// experts' weights and the router's product (models/mixture.cc). Invariants: a row's result depends on the
// row alone, never on who else chose its experts; only the weights of chosen experts are read.
// Source: arXiv 1701.06538; groups and correction: arXiv 2412.19437 (DeepSeek-V3).
#include <cstdint>
#include <span>

#include "kernels/backend.h"
#include "kernels/linear.h"
#include "kernels/routing_rule.h"

namespace pagoda {

// Chooses the experts with the largest score + correction, of equal ones the lower id (NaN is below all). The
// weight is the score without the correction. logits [num_rows, num_experts]; correction has an entry for
// each expert or none. experts, weights [num_rows, per_token]: each row's ids ascending.
void route(const KernelContext& context, const RoutingRule& rule, const float* logits, std::int64_t num_rows,
           std::span<const float> correction, std::int32_t* experts, float* weights);

// Which rows each of several matrices multiplies. Places [starts[m], starts[m + 1]) are those of matrix m;
// place p has row rows[p] of the input, times factors[p] where there are factors.
struct RowGroups {
  std::span<const std::int32_t> starts;
  std::span<const std::int32_t> rows;
  std::span<const float> factors = {};
};

// out[place] = second[m](f(first[m](input row of the place))), as linear() computes each. All of `first` have
// one shape, and so have all of `second`. out: [places, N of the second].
void grouped_pair(const KernelContext& context, std::span<const PackedLinear> first, Activation activation,
                  std::span<const PackedLinear> second, const LinearInput& input, std::int64_t num_rows,
                  const RowGroups& groups, float* out);

// y[row] += the sum of weights[row, i] * x[places[row, i]] over i ascending, of those whose place is not
// negative. x, y: rows of `width`; weights, places: [num_rows, per_row]; no weights: all are 1.
void add_weighted(const KernelContext& context, const float* x, std::int64_t width, std::int64_t num_rows,
                  std::int64_t per_row, const std::int32_t* places, const float* weights, float* y);

}  // namespace pagoda
