#pragma once
// A mixture of experts as one op, from the router's logits to y: each row chooses experts, rows are grouped
// by expert, the products of all chosen experts run as one job, and each row's results are summed with its
// weights. The individual steps are declared below for tests and for the op itself. Not here: the experts'
// weights and the router's product (models/decoder/mixture.cc). Invariants: a row's result depends on that
// row alone, never on other rows that chose the same experts; only the weights of chosen experts are read.
// Planned user: low-rank adapters of experts. Source: arXiv 1701.06538; groups and correction: arXiv
// 2412.19437 (DeepSeek-V3).
#include <cstdint>
#include <functional>
#include <span>

#include "base/status.h"
#include "kernels/backend.h"
#include "kernels/buffer.h"
#include "kernels/linear.h"
#include "kernels/routing_rule.h"

namespace pagoda {

// How ranks that each hold some whole experts exchange results (models/decoder/rank_exchange.h). Every rank
// knows the sizes, since all ranks make the same choice.
class ExpertExchange {
 public:
  virtual ~ExpertExchange() = default;
  // True if every rank receives the output of each expert; otherwise each rank sums its own experts, and the
  // sums are added up.
  virtual bool gathers() const = 0;
  // `all` holds sizes[r] floats of each rank r, in order of rank; this rank's floats are already in place.
  virtual Status gather(std::span<const std::size_t> sizes, const Buffer& all) const = 0;
  virtual Status sum(std::int64_t count, const Buffer& data) const = 0;  // `count` floats
};

struct MixtureArgs {
  RoutingRule routing = {};
  std::span<const float> correction = {};     // per expert, or empty: affects the choice, not the weights
  std::span<const float> expert_scales = {};  // per expert, or empty: factors of the weights
  bool weigh_input = false;  // a row's weights multiply the experts' inputs, not their outputs in the sum
  // This rank's experts: `first_expert` and the following ones.
  std::span<const PackedLinear> first = {}, second = {};
  std::int64_t first_expert = 0;
  Activation activation = Activation::silu;
  const ExpertExchange* exchange = nullptr;      // null: this rank has all experts
  std::span<const std::int64_t> rank_ends = {};  // with an exchange: one past each rank's last expert
  // If every rank has a device: one past each rank's last feature, and last row of `second`, in every expert.
  // This rank's matrices then hold its own rows of all experts, and y is complete on every rank.
  std::span<const std::int64_t> feature_ends = {}, hidden_ends = {};
  // Called after the experts have read the input and before their sum is added to y: for other work that
  // reads the same input and adds to y.
  std::function<Status()> before_sum = {};
};

// Floats of scratch that the op needs per row.
std::int64_t mixture_scratch(const MixtureArgs& args);

// y = (accumulate: y +) the weighted sum of the chosen experts' outputs for `input`. logits: [num_rows,
// experts], contiguous. y may alias the input. Not ok if another rank is lost.
Status mixture(const KernelContext& context, const MixtureArgs& args, const Buffer& logits,
               const LinearInput& input, std::int64_t num_rows, const Buffer& scratch, bool accumulate,
               const Buffer& y);

// Chooses the experts with the largest score + correction; of equal ones the lower id (NaN ranks below all).
// The weight is the score without the correction. logits [num_rows, num_experts]; correction has one entry
// per expert or is empty. experts, weights [num_rows, per_token]: each row's ids in ascending order.
void route(const KernelContext& context, const RoutingRule& rule, const float* logits, std::int64_t num_rows,
           std::span<const float> correction, std::int32_t* experts, float* weights);

// The rows that each of several matrices multiplies. Places [starts[m], starts[m + 1]) belong to matrix m.
// Place p takes row rows[p] of the input, times factors[p] if there are factors.
struct RowGroups {
  std::span<const std::int32_t> starts;
  std::span<const std::int32_t> rows;
  std::span<const float> factors = {};
};

// out[place] = second[m](f(first[m](input row of the place))), each as linear() computes it. All matrices of
// `first` have the same shape, and so do all of `second`. out: [places, N of the second].
void grouped_pair(const KernelContext& context, std::span<const PackedLinear> first, Activation activation,
                  std::span<const PackedLinear> second, const LinearInput& input, std::int64_t num_rows,
                  const RowGroups& groups, float* out);

// y[row] = (accumulate: y +) the sum over i, ascending, of weights[row, i] * x[places[row, i]]; negative
// places are skipped. x, y: rows of `width`; weights, places: [num_rows, per_row]; null weights: all are 1.
void add_weighted(const KernelContext& context, const float* x, std::int64_t width, std::int64_t num_rows,
                  std::int64_t per_row, const std::int32_t* places, const float* weights, bool accumulate,
                  const Buffer& y);

}  // namespace pagoda
