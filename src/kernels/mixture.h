#pragma once
// A mixture of experts as one op, from the router's logits to y: some experts are chosen for each row, the
// rows are grouped by expert, all chosen experts' products with their rows are one piece of work, and each
// row's results are summed by its weights. Its pieces are declared below for tests and for the op itself. Not
// here: the experts' weights and the router's product (models/decoder/mixture.cc). Invariants: a row's result
// depends on the row alone, never on who else chose its experts; only the weights of chosen experts are read.
// Users to come: low-rank adapters of a row's experts. Source: arXiv 1701.06538; groups and correction: arXiv
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

// How ranks that have some experts each, whole, come to all results (models/decoder/rank_exchange.h). Sizes
// are as every rank knows them, since all make the same choice.
class ExpertExchange {
 public:
  virtual ~ExpertExchange() = default;
  // Whether every rank gets what each expert makes; else each sums its own, and the sums are summed.
  virtual bool gathers() const = 0;
  // `all` has sizes[r] floats of each rank r, one after the other, and this rank's are in their place.
  virtual Status gather(std::span<const std::size_t> sizes, const Buffer& all) const = 0;
  virtual Status sum(std::int64_t count, const Buffer& data) const = 0;  // so many floats
};

struct MixtureArgs {
  RoutingRule routing = {};
  std::span<const float> correction = {};     // by expert, or none: changes the choice, not the weights
  std::span<const float> expert_scales = {};  // by expert, or none: factors of the weights
  bool weigh_input = false;  // a row's weights are factors of the experts' inputs, not of the sum
  // The experts of this rank, which are `first_expert` and those behind it.
  std::span<const PackedLinear> first = {}, second = {};
  std::int64_t first_expert = 0;
  Activation activation = Activation::silu;
  const ExpertExchange* exchange = nullptr;      // null: this rank has all of them
  std::span<const std::int64_t> rank_ends = {};  // with an exchange: the expert behind each rank's last
  // On ranks with a device each: the feature, and the row of `second`, behind each rank's last, of every
  // expert. Then this rank's matrices have its own rows of all experts, and y is whole on every rank.
  std::span<const std::int64_t> feature_ends = {}, hidden_ends = {};
  // Called when the experts have read the input, before their sum is added: what reads the same input and
  // adds to y itself.
  std::function<Status()> before_sum = {};
};

// Floats of a row in the scratch that the op needs.
std::int64_t mixture_scratch(const MixtureArgs& args);

// y = (accumulate: y +) the weighted sum of what the chosen experts make of `input`. logits: [num_rows,
// experts], contiguous. y may be what the input reads. Not ok: another rank is lost.
Status mixture(const KernelContext& context, const MixtureArgs& args, const Buffer& logits,
               const LinearInput& input, std::int64_t num_rows, const Buffer& scratch, bool accumulate,
               const Buffer& y);

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

// y[row] = (accumulate: y +) the sum of weights[row, i] * x[places[row, i]] over i ascending, of those whose
// place is not negative. x, y: rows of `width`; weights, places: [num_rows, per_row]; no weights: all are 1.
void add_weighted(const KernelContext& context, const float* x, std::int64_t width, std::int64_t num_rows,
                  std::int64_t per_row, const std::int32_t* places, const float* weights, bool accumulate,
                  const Buffer& y);

}  // namespace pagoda
