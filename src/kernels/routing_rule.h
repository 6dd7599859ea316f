#pragma once
// RoutingRule: how a mixture chooses experts for a row; mixture.h carries it out.
#include <cstdint>

namespace pagoda {

enum class RouterScore {
  softmax,            // over all experts
  softmax_of_chosen,  // chosen by logit; softmax over these alone
  sigmoid,            // each by itself
  // One after the other: the best logit of those left, weighed by a softmax over those left that are near it:
  // below it by no more than `near` of the larger magnitude (arXiv 2409.12136).
  sparse_mixer,
};

struct RoutingRule {
  RouterScore score = RouterScore::softmax;
  std::int32_t num_experts = 0;
  std::int32_t per_token = 0;  // experts that a row chooses
  // Neighbouring experts form groups; a row chooses from the best `groups_used` of them, each worth its best
  // expert, or its best two together.
  std::int32_t num_groups = 1, groups_used = 1;
  bool group_is_best_two = true;
  bool renormalize = false;  // weights of a row sum to 1
  float scale = 1;           // factor of the weights
  float near = 0;            // sparse_mixer alone
  bool operator==(const RoutingRule&) const = default;
};

}  // namespace pagoda
