// The half of DeviceDecoder's layers that works on each token alone: dense, or a mixture of experts.
#include "device_runner/device_decoder.h"
#include "kernels/device/ops.h"

namespace pagoda::device_runner {
using device_ops::function_of, device_ops::score_of;

Status DeviceDecoder::feed_forward(const DeviceDense& dense, const DenseFeedForwardConfig& config,
                                   const float* x, std::int64_t rows, float* y, bool accumulate) {
  PAGODA_RETURN_IF_ERROR(multiply(dense.in, x, rows, gate_up_.data()));
  PAGODA_RETURN_IF_ERROR(launches_.activate({.in = gate_up_.data(),
                                             .out = inner_.data(),
                                             .width = config.intermediate_size,
                                             .function = function_of(config.activation),
                                             .gated = config.gated ? 1 : 0},
                                            rows));
  return multiply(dense.down, inner_.data(), rows, y, accumulate);
}

Status DeviceDecoder::mixture(const DeviceMixture& weights, const MixtureConfig& config, const float* x,
                              std::int64_t rows, float* y, bool accumulate) {
  const RoutingRule& rule = config.routing;
  const auto pairs = static_cast<std::int32_t>(rows * rule.per_token);
  PAGODA_RETURN_IF_ERROR(multiply(weights.router, x, rows, router_logits_.data()));
  PAGODA_RETURN_IF_ERROR(launches_.route_and_group({.logits = router_logits_.data(),
                                                    .correction = weights.correction.data(),
                                                    .chosen = chosen_.data(),
                                                    .weights = choice_weights_.data(),
                                                    .experts = rule.num_experts,
                                                    .per_token = rule.per_token,
                                                    .groups = rule.num_groups,
                                                    .groups_used = rule.groups_used,
                                                    .best_two = rule.group_is_best_two ? 1 : 0,
                                                    .score = score_of(rule.score),
                                                    .renormalize = rule.renormalize ? 1 : 0,
                                                    .scale = rule.scale,
                                                    .slots = slots_.data(),
                                                    .tiles = tiles_.data()},
                                                   rows));
  device::GroupedLinearArgs args = {.x = x,
                                    .factors = config.weigh_input ? choice_weights_.data() : nullptr,
                                    .y = gate_up_.data(),
                                    .slots = slots_.data(),
                                    .tiles = tiles_.data(),
                                    .pairs = pairs,
                                    .experts = rule.num_experts,
                                    .pairs_of_row = rule.per_token};
  PAGODA_RETURN_IF_ERROR(multiply_pairs(weights.in, args));
  PAGODA_RETURN_IF_ERROR(launches_.activate({.in = gate_up_.data(),
                                             .out = inner_.data(),
                                             .width = config.expert.intermediate_size,
                                             .function = function_of(config.expert.activation),
                                             .gated = config.expert.gated ? 1 : 0},
                                            pairs));
  args.x = inner_.data();
  args.factors = nullptr;
  args.y = expert_rows_.data();
  args.pairs_of_row = 1;
  PAGODA_RETURN_IF_ERROR(multiply_pairs(weights.out, args));

  // Nothing is put into y, which may be x, before all have read x.
  DenseFeedForwardConfig shared = config.expert;
  shared.intermediate_size = config.shared_intermediate_size;
  if (weights.shared && config.shared_gate) {
    PAGODA_RETURN_IF_ERROR(multiply(weights.shared_router, x, rows, shares_.data()));
    PAGODA_RETURN_IF_ERROR(feed_forward(*weights.shared, shared, x, rows, shared_rows_.data(), false));
  } else if (weights.shared) {
    PAGODA_RETURN_IF_ERROR(feed_forward(*weights.shared, shared, x, rows, y, accumulate));
    accumulate = true;
  }
  PAGODA_RETURN_IF_ERROR(launches_.combine({.x = expert_rows_.data(),
                                            .weights = config.weigh_input ? nullptr : choice_weights_.data(),
                                            .y = y,
                                            .width = config_.hidden_size,
                                            .per_token = rule.per_token,
                                            .accumulate = accumulate ? 1 : 0},
                                           rows));
  if (!weights.shared || !config.shared_gate) return ok_status();
  return launches_.add_rows(
      {.x = shared_rows_.data(), .y = y, .gate = shares_.data(), .width = config_.hidden_size}, rows);
}

}  // namespace pagoda::device_runner
