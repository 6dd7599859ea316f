// Routing, the weighted sum, and the choice of the implementation of grouped products.
#include "kernels/mixture.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/check.h"
#include "kernels/cpu/cpu.h"
#include "kernels/linear_storage.h"
#include "kernels/reference/reference.h"
#include "kernels/tiles.h"

namespace pagoda {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// Calls `take` with the index of each of the `most` largest of values [0, count); of equal ones the first.
// Overwrites the values taken.
template <class Take>
void take_largest(float* values, std::int32_t count, std::int32_t most, const Take& take) {
  for (std::int32_t n = 0; n < most; ++n) {
    const auto largest = static_cast<std::int32_t>(std::max_element(values, values + count) - values);
    take(largest);
    values[largest] = kNever;
  }
}

// Routes one row at a time; its work space is reused from row to row.
class Router {
 public:
  Router(const RoutingRule& rule, std::span<const float> correction)
      : rule_(rule),
        correction_(correction),
        score_(static_cast<std::size_t>(rule.num_experts)),
        rank_(score_.size()),
        group_(static_cast<std::size_t>(rule.num_groups)) {}

  void route(const float* logits, std::int32_t* experts, float* weights) {
    if (rule_.score == RouterScore::sparse_mixer) return mix_sparsely(logits, experts, weights);
    score(logits);
    for (std::size_t i = 0; i < rank_.size(); ++i) {
      const float value = rule_.score == RouterScore::softmax_of_chosen ? logits[i] : score_[i];
      const float rank = correction_.empty() ? value : value + correction_[i];
      rank_[i] = std::isnan(rank) ? kLeast : std::max(rank, kLeast);
    }
    if (rule_.groups_used < rule_.num_groups) keep_best_groups();
    std::int32_t count = 0;
    take_largest(rank_.data(), rule_.num_experts, rule_.per_token,
                 [&](std::int32_t expert) { experts[count++] = expert; });
    std::sort(experts, experts + count);
    weigh(logits, experts, weights);
  }

 private:
  // Above kNever, so that experts already taken are not taken again.
  static constexpr float kLeast = std::numeric_limits<float>::lowest();

  void score(const float* logits) {
    if (rule_.score == RouterScore::sigmoid) {
      for (std::size_t i = 0; i < score_.size(); ++i) score_[i] = 1.0f / (1.0f + std::exp(-logits[i]));
    } else if (rule_.score == RouterScore::softmax) {
      softmax(logits, rule_.num_experts, score_.data(), [](std::int32_t i) { return i; });
    }
  }

  template <class At>
  static void softmax(const float* logits, std::int32_t count, float* out, const At& at) {
    float largest = kNever, sum = 0;
    for (std::int32_t i = 0; i < count; ++i) largest = std::max(largest, logits[at(i)]);
    for (std::int32_t i = 0; i < count; ++i) sum += out[i] = std::exp(logits[at(i)] - largest);
    for (std::int32_t i = 0; i < count; ++i) out[i] /= sum;
  }

  void mix_sparsely(const float* logits, std::int32_t* experts, float* weights) {
    for (std::size_t i = 0; i < rank_.size(); ++i)
      rank_[i] = std::isnan(logits[i]) ? kLeast : std::clamp(logits[i], kLeast, -kLeast);
    std::ranges::fill(score_, 0.0f);  // weights of the chosen experts
    for (std::int32_t n = 0; n < rule_.per_token; ++n) {
      const auto best = std::ranges::max_element(rank_);
      const float largest = *best;
      float sum = 0;
      for (const float value : rank_)
        if (value != kNever && !((largest - value) / std::max(std::abs(value), largest) > rule_.near))
          sum += std::exp(value - largest);
      score_[static_cast<std::size_t>(best - rank_.begin())] = rule_.scale / sum;
      experts[n] = static_cast<std::int32_t>(best - rank_.begin());
      *best = kNever;
    }
    std::sort(experts, experts + rule_.per_token);
    for (std::int32_t n = 0; n < rule_.per_token; ++n)
      weights[n] = score_[static_cast<std::size_t>(experts[n])];
  }

  void keep_best_groups() {
    const std::int32_t size = rule_.num_experts / rule_.num_groups;
    for (std::int32_t group = 0; group < rule_.num_groups; ++group) {
      float best = kNever, second = kNever;
      for (std::int32_t i = group * size; i < (group + 1) * size; ++i) {
        const float rank = rank_[static_cast<std::size_t>(i)];
        if (rank > best)
          second = std::exchange(best, rank);
        else
          second = std::max(second, rank);
      }
      group_[static_cast<std::size_t>(group)] = rule_.group_is_best_two && size > 1 ? best + second : best;
    }
    kept_.assign(group_.size(), false);
    take_largest(group_.data(), rule_.num_groups, rule_.groups_used,
                 [&](std::int32_t group) { kept_[static_cast<std::size_t>(group)] = true; });
    for (std::int32_t i = 0; i < rule_.num_experts; ++i)
      if (!kept_[static_cast<std::size_t>(i / size)]) rank_[static_cast<std::size_t>(i)] = kNever;
  }

  void weigh(const float* logits, const std::int32_t* experts, float* weights) const {
    const std::int32_t count = rule_.per_token;
    if (rule_.score == RouterScore::softmax_of_chosen) {
      softmax(logits, count, weights, [&](std::int32_t i) { return experts[i]; });
    } else {
      for (std::int32_t i = 0; i < count; ++i) weights[i] = score_[static_cast<std::size_t>(experts[i])];
    }
    float factor = rule_.scale;
    if (rule_.renormalize) {
      float sum = 0;
      for (std::int32_t i = 0; i < count; ++i) sum += weights[i];
      factor /= std::max(sum, 1e-20f);
    }
    for (std::int32_t i = 0; i < count; ++i) weights[i] *= factor;
  }

  const RoutingRule& rule_;
  std::span<const float> correction_;
  std::vector<float> score_, rank_, group_;
  std::vector<bool> kept_;
};

}  // namespace

void route(const KernelContext& context, const RoutingRule& rule, const float* logits, std::int64_t num_rows,
           std::span<const float> correction, std::int32_t* experts, float* weights) {
  CHECK(rule.per_token >= 1 && rule.per_token <= rule.num_experts / rule.num_groups * rule.groups_used);
  CHECK(rule.num_experts % rule.num_groups == 0 &&
        (correction.empty() || correction.size() == static_cast<std::size_t>(rule.num_experts)));
  if (context.backend == Backend::reference) {
    for (std::int64_t row = 0; row < num_rows; ++row)
      reference::route(rule, logits + row * rule.num_experts, correction, experts + row * rule.per_token,
                       weights + row * rule.per_token);
    return;
  }
  for_ranges(context, num_rows, 8, [&](std::int64_t first, std::int64_t last) {
    Router router(rule, correction);
    for (std::int64_t row = first; row < last; ++row)
      router.route(logits + row * rule.num_experts, experts + row * rule.per_token,
                   weights + row * rule.per_token);
  });
}

void grouped_pair(const KernelContext& context, std::span<const PackedLinear> first, Activation activation,
                  std::span<const PackedLinear> second, const LinearInput& input, std::int64_t num_rows,
                  const RowGroups& groups, float* out) {
  CHECK(first.size() == second.size() && groups.starts.size() == first.size() + 1);
  CHECK(groups.factors.empty() || groups.factors.size() == groups.rows.size());
  CHECK(!first.empty() && first.front().n() == second.front().k());
  if (groups.rows.empty()) return;
  if (first.front().storage().backend == Backend::cpu)
    cpu::grouped_pair(context, first, activation, second, input, num_rows, groups, out);
  else
    reference::grouped_pair(context, first, activation, second, input, groups, out);
}

void add_weighted(const KernelContext& context, const float* x, std::int64_t width, std::int64_t num_rows,
                  std::int64_t per_row, const std::int32_t* places, const float* weights, bool accumulate,
                  const Buffer& y) {
  constexpr std::int64_t kColumns = 256;  // their sums stay in the first-level cache
  const std::int64_t blocks = ceil_div(width, kColumns);
  const std::int64_t grain = std::max<std::int64_t>(1, 16384 / (kColumns * per_row));
  for_ranges(context, num_rows * blocks, grain, [&](std::int64_t begin, std::int64_t end) {
    float sum[kColumns];
    for (std::int64_t at = begin; at < end; ++at) {
      const std::int64_t row = at / blocks, column = at % blocks * kColumns;
      const std::int64_t count = std::min(kColumns, width - column);
      std::fill_n(sum, count, 0.0f);
      for (std::int64_t i = row * per_row; i < (row + 1) * per_row; ++i) {
        if (places[i] < 0) continue;
        const float* const from = x + places[i] * width + column;
        const float weight = weights != nullptr ? weights[i] : 1.0f;
        for (std::int64_t j = 0; j < count; ++j) sum[j] += weight * from[j];
      }
      float* const to = floats(y, row) + column;
      if (accumulate)
        for (std::int64_t j = 0; j < count; ++j) to[j] += sum[j];
      else
        std::copy_n(sum, count, to);
    }
  });
}

}  // namespace pagoda
