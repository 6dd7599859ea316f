#pragma once
// RoutingRule: how a mixture chooses the experts of a row; implemented in mixture.h.
#include <cstdint>

namespace pagoda {

enum class RouterScore {
  softmax,            // over all experts
  softmax_of_chosen,  // chosen by logit; softmax over the chosen experts only
  sigmoid,            // each expert independently
  // One expert at a time: the best logit among the remaining ones, weighted by a softmax over those remaining
  // logits that are below it by no more than `near` times the larger magnitude (arXiv 2409.12136).
  sparse_mixer,
};

struct RoutingRule {
  RouterScore score = RouterScore::softmax;
  std::int32_t num_experts = 0;
  std::int32_t per_token = 0;  // experts per row
  // Neighbouring experts form groups; a row chooses from the best `groups_used` groups. A group's score is
  // that of its best expert, or the sum of its best two.
  std::int32_t num_groups = 1, groups_used = 1;
  bool group_is_best_two = true;
  bool renormalize = false;  // scale a row's weights to sum to 1
  float scale = 1;           // factor of the weights
  float near = 0;            // sparse_mixer only
  bool operator==(const RoutingRule&) const = default;
};

}  // namespace pagoda
