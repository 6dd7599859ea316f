// The mixture op on the CPU: routing, grouping rows by expert, the products, and the sums. The reference
// backend computes each row separately.
#include <algorithm>
#include <vector>

#include "base/check.h"
#include "kernels/device/ops.h"
#include "kernels/linear_storage.h"
#include "kernels/mixture.h"
#include "kernels/reference/reference.h"
#include "kernels/rows.h"

namespace pagoda {
namespace {

// The choices of one call; kept between calls for their capacity. chosen, places: [row, choice]; the others
// as in RowGroups.
struct Choices {
  std::vector<std::int32_t> chosen, places, starts, rows, own_starts;
  std::vector<float> weights, factors;
  std::vector<std::size_t> sizes;  // floats produced by each rank's experts

  void route(const KernelContext& context, const MixtureArgs& args, const float* logits,
             std::int64_t num_rows);
  void group(const MixtureArgs& args);
  RowGroups own_groups(const MixtureArgs& args);
  std::int32_t start(std::int64_t expert) const { return starts[static_cast<std::size_t>(expert)]; }
};

void Choices::route(const KernelContext& context, const MixtureArgs& args, const float* logits,
                    std::int64_t num_rows) {
  const auto count = static_cast<std::size_t>(num_rows * args.routing.per_token);
  chosen.resize(count);
  weights.resize(count);
  pagoda::route(context, args.routing, logits, num_rows, args.correction, chosen.data(), weights.data());
  for (std::size_t i = 0; i < count && !args.expert_scales.empty(); ++i)
    weights[i] *= args.expert_scales[static_cast<std::size_t>(chosen[i])];
}

// Groups rows by the expert that they chose, in ascending order within an expert. All ranks compute the same
// places.
void Choices::group(const MixtureArgs& args) {
  starts.assign(static_cast<std::size_t>(args.routing.num_experts) + 1, 0);
  for (const std::int32_t expert : chosen) ++starts[static_cast<std::size_t>(expert) + 1];
  for (std::size_t i = 1; i < starts.size(); ++i) starts[i] += starts[i - 1];
  rows.resize(chosen.size());
  factors.resize(args.weigh_input ? rows.size() : 0);
  places.resize(chosen.size());
  for (std::size_t at = 0; at < chosen.size(); ++at) {
    const std::int32_t place = starts[static_cast<std::size_t>(chosen[at])]++;
    places[at] = place;
    rows[static_cast<std::size_t>(place)] =
        static_cast<std::int32_t>(at / static_cast<std::size_t>(args.routing.per_token));
    if (args.weigh_input) factors[static_cast<std::size_t>(place)] = weights[at];
  }
  // Each entry has advanced from its group's begin to its end.
  std::copy_backward(starts.begin(), starts.end() - 1, starts.end());
  starts.front() = 0;
}

// The groups of this rank's experts, with places counted from 0.
RowGroups Choices::own_groups(const MixtureArgs& args) {
  const auto begin = starts.begin() + args.first_expert;
  own_starts.assign(begin, begin + std::ssize(args.first) + 1);
  const auto first = static_cast<std::size_t>(own_starts.front());
  for (std::int32_t& start : own_starts) start -= static_cast<std::int32_t>(first);
  const auto size = static_cast<std::size_t>(own_starts.back());
  return {.starts = own_starts,
          .rows = std::span(rows).subspan(first, size),
          .factors = factors.empty() ? std::span<const float>() : std::span(factors).subspan(first, size)};
}

}  // namespace

std::int64_t mixture_scratch(const MixtureArgs& args) {
  if (on_device(args.first.front().storage().backend)) return device_ops::mixture_scratch(args);
  return (args.routing.per_token + 1) * args.second.front().n();
}

Status mixture(const KernelContext& context, const MixtureArgs& args, const Buffer& logits,
               const LinearInput& input, std::int64_t num_rows, const Buffer& scratch, bool accumulate,
               const Buffer& y) {
  const std::int64_t hidden = args.second.front().n(), per_token = args.routing.per_token;
  CHECK(logits.stride == args.routing.num_experts);
  const auto before_sum = [&] { return args.before_sum ? args.before_sum() : ok_status(); };
  const auto take = [&](const Buffer& sum) {
    if (accumulate)
      add_rows(context, {num_rows, hidden}, 1, sum, y);
    else
      copy_rows(context, {num_rows, hidden}, sum, y);
    return ok_status();
  };
  if (on_device(context))
    return device_ops::mixture(*context.device, args, logits, input, num_rows, scratch, accumulate, y);
  if (context.backend == Backend::reference && args.exchange == nullptr) {
    const Buffer sum = scratch.with_stride(hidden);
    reference::mixture(context, args, logits, input, num_rows, sum);
    PAGODA_RETURN_IF_ERROR(before_sum());
    return take(sum);
  }
  static thread_local Choices choices;
  choices.route(context, args, floats(logits), num_rows);
  choices.group(args);
  const Buffer outs = scratch.with_stride(hidden);
  grouped_pair(context, args.first, args.activation, args.second, input, num_rows, choices.own_groups(args),
               floats(outs, choices.start(args.first_expert)));
  const float* const weights = args.weigh_input ? nullptr : choices.weights.data();
  const auto add = [&](bool adds, const Buffer& to) {
    add_weighted(context, floats(outs), hidden, num_rows, per_token, choices.places.data(), weights, adds,
                 to);
  };
  if (args.exchange != nullptr && !args.exchange->gathers()) {
    const std::int64_t end = args.first_expert + std::ssize(args.first);
    for (std::size_t i = 0; i < choices.places.size(); ++i)
      if (choices.chosen[i] < args.first_expert || choices.chosen[i] >= end) choices.places[i] = -1;
    const Buffer partial = outs.at(num_rows * per_token);
    add(false, partial);
    PAGODA_RETURN_IF_ERROR(args.exchange->sum(num_rows * hidden, partial));
    PAGODA_RETURN_IF_ERROR(before_sum());
    return take(partial);
  }
  if (args.exchange != nullptr) {
    choices.sizes.clear();
    std::int64_t before = 0;
    for (const std::int64_t end : args.rank_ends) {
      choices.sizes.push_back(
          static_cast<std::size_t>((choices.start(end) - choices.start(before)) * hidden));
      before = end;
    }
    PAGODA_RETURN_IF_ERROR(args.exchange->gather(choices.sizes, outs));
  }
  PAGODA_RETURN_IF_ERROR(before_sum());
  add(accumulate, y);
  return ok_status();
}

}  // namespace pagoda
