#include "kernels/mixture.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <vector>

#include "kernels/linear_storage.h"
#include "kernels/reference/reference.h"

namespace pagoda::reference {
namespace {

// Ids in descending order of value, ties by ascending id, NaN last.
std::vector<std::int32_t> in_order(std::vector<double> values) {
  std::vector<std::int32_t> ids(values.size());
  std::iota(ids.begin(), ids.end(), 0);
  for (double& value : values)
    if (std::isnan(value)) value = -HUGE_VAL;
  std::sort(ids.begin(), ids.end(), [&](std::int32_t a, std::int32_t b) {
    const double x = values[static_cast<std::size_t>(a)], y = values[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  });
  return ids;
}

// Nearness and ties are decided in float.
void route_sparsely(const RoutingRule& rule, const float* logits, std::int32_t* experts, float* weights) {
  std::vector<double> left(logits, logits + rule.num_experts);
  std::map<std::int32_t, float> weight_of;  // by expert id
  for (std::int32_t n = 0; n < rule.per_token; ++n) {
    std::int32_t best = in_order(left).front();
    while (weight_of.contains(best)) ++best;  // only infinities are left
    double sum = 0;
    for (std::int32_t i = 0; i < rule.num_experts; ++i) {
      const float value = logits[i], largest = logits[best];
      if (weight_of.contains(i) || (largest - value) / std::max(std::abs(value), largest) > rule.near)
        continue;
      sum += std::exp(static_cast<double>(value) - largest);
    }
    weight_of[best] = static_cast<float>(rule.scale / sum);
    left[static_cast<std::size_t>(best)] = -HUGE_VAL;
  }
  for (const auto& [expert, weight] : weight_of) {
    *experts++ = expert;
    *weights++ = weight;
  }
}

}  // namespace

void route(const RoutingRule& rule, const float* logits, std::span<const float> correction,
           std::int32_t* experts, float* weights) {
  if (rule.score == RouterScore::sparse_mixer) return route_sparsely(rule, logits, experts, weights);
  const auto count = static_cast<std::size_t>(rule.num_experts);
  const auto chosen = static_cast<std::size_t>(rule.per_token);
  std::vector<double> score(logits, logits + count);
  if (rule.score == RouterScore::sigmoid) {
    for (double& value : score) value = 1.0 / (1.0 + std::exp(-value));
  } else if (rule.score == RouterScore::softmax) {
    const double largest = *std::max_element(score.begin(), score.end());
    for (double& value : score) value = std::exp(value - largest);
    const double sum = std::accumulate(score.begin(), score.end(), 0.0);
    for (double& value : score) value /= sum;
  }
  // In float, in which ties are decided.
  std::vector<double> rank;
  for (std::size_t i = 0; i < count; ++i)
    rank.push_back(static_cast<float>(score[i]) + (correction.empty() ? 0.0f : correction[i]));

  const std::size_t groups = static_cast<std::size_t>(rule.num_groups), size = count / groups;
  std::vector<double> group_rank;
  for (std::size_t group = 0; group < groups; ++group) {
    std::vector<double> members(rank.begin() + static_cast<std::ptrdiff_t>(group * size),
                                rank.begin() + static_cast<std::ptrdiff_t>((group + 1) * size));
    std::sort(members.rbegin(), members.rend());
    group_rank.push_back(rule.group_is_best_two && size > 1 ? members[0] + members[1] : members[0]);
  }
  std::vector<std::int32_t> best_groups = in_order(group_rank);
  best_groups.resize(static_cast<std::size_t>(rule.groups_used));

  std::vector<std::int32_t> ids;
  for (const std::int32_t id : in_order(rank)) {
    const auto group = static_cast<std::int32_t>(static_cast<std::size_t>(id) / size);
    if (ids.size() < chosen && std::find(best_groups.begin(), best_groups.end(), group) != best_groups.end())
      ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end());

  std::vector<double> weight;
  for (const std::int32_t id : ids) weight.push_back(score[static_cast<std::size_t>(id)]);
  if (rule.score == RouterScore::softmax_of_chosen) {
    const double largest = *std::max_element(weight.begin(), weight.end());
    for (double& value : weight) value = std::exp(value - largest);
    const double sum = std::accumulate(weight.begin(), weight.end(), 0.0);
    for (double& value : weight) value /= sum;
  }
  const double sum = rule.renormalize ? std::accumulate(weight.begin(), weight.end(), 0.0) : 1.0;
  for (std::size_t i = 0; i < chosen; ++i) {
    experts[i] = ids[i];
    weights[i] = static_cast<float>(weight[i] / sum * rule.scale);
  }
}

void grouped_pair(const KernelContext& context, std::span<const PackedLinear> first, Activation activation,
                  std::span<const PackedLinear> second, const LinearInput& input, const RowGroups& groups,
                  float* out) {
  const std::int64_t k = first.front().k(), n = second.front().n();
  std::vector<float> row(static_cast<std::size_t>(k));
  std::vector<float> between(static_cast<std::size_t>(second.front().k()));
  for (std::size_t m = 0; m < first.size(); ++m) {
    for (auto place = static_cast<std::size_t>(groups.starts[m]);
         place < static_cast<std::size_t>(groups.starts[m + 1]); ++place) {
      input_row(input, groups.rows[place], k, row.data());
      if (!groups.factors.empty())
        for (float& value : row) value *= groups.factors[place];
      linear(context, first[m].storage(), LinearInput::rows(row.data(), k), 1, between.data(),
             {.activation = activation});
      linear(context, second[m].storage(), LinearInput::rows(between.data(), second[m].k()), 1,
             out + static_cast<std::int64_t>(place) * n, {});
    }
  }
}

void mixture(const KernelContext& context, const MixtureArgs& args, const Buffer& logits,
             const LinearInput& input, std::int64_t num_rows, const Buffer& y) {
  const auto per_token = static_cast<std::size_t>(args.routing.per_token);
  const std::int64_t k = args.first.front().k(), n = args.second.front().n();
  std::vector<float> all(static_cast<std::size_t>(num_rows * k));  // copied, since y may alias the input
  for (std::int64_t row = 0; row < num_rows; ++row) input_row(input, row, k, all.data() + row * k);
  for (std::int64_t row = 0; row < num_rows; ++row) {
    std::vector<std::int32_t> experts(per_token);
    std::vector<float> weights(per_token);
    route(args.routing, floats(logits, row), args.correction, experts.data(), weights.data());
    std::vector<float> sum(static_cast<std::size_t>(n));  // in float, as ranks sum the gathered results
    for (std::size_t i = 0; i < per_token; ++i) {
      const auto expert = static_cast<std::size_t>(experts[i]);
      const float weight = weights[i] * (args.expert_scales.empty() ? 1.0f : args.expert_scales[expert]);
      std::vector<float> x(all.begin() + row * k, all.begin() + (row + 1) * k);
      if (args.weigh_input)
        for (float& value : x) value *= weight;
      std::vector<float> between(static_cast<std::size_t>(args.second.front().k())),
          out(static_cast<std::size_t>(n));
      linear(context, args.first[expert].storage(), LinearInput::rows(x.data(), k), 1, between.data(),
             {.activation = args.activation});
      linear(context, args.second[expert].storage(),
             LinearInput::rows(between.data(), args.second[expert].k()), 1, out.data(), {});
      for (std::size_t j = 0; j < sum.size(); ++j) sum[j] += (args.weigh_input ? 1.0f : weight) * out[j];
    }
    std::ranges::copy(sum, floats(y, row));
  }
}

}  // namespace pagoda::reference
