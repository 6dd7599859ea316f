#include "decoding/stop_rules.h"

#include <algorithm>

namespace pagoda {

bool is_eos(const SamplingParams& sampling, TokenId token) {
  return !sampling.ignore_eos &&
         std::ranges::find(sampling.eos_token_ids, token) != sampling.eos_token_ids.end();
}

std::optional<Stop> check_stop(const SamplingParams& sampling, TokenId token, std::int32_t num_tokens,
                               std::int32_t num_output_tokens, std::int32_t max_model_len) {
  if (num_output_tokens >= sampling.min_tokens) {
    if (is_eos(sampling, token)) {
      const bool first = token == sampling.eos_token_ids.front();
      return Stop{FinishReason::stop, first ? std::nullopt : std::optional(token)};
    }
    if (std::ranges::find(sampling.stop_token_ids, token) != sampling.stop_token_ids.end()) {
      return Stop{FinishReason::stop, token};
    }
  }
  if (num_tokens >= max_model_len || num_output_tokens >= sampling.max_tokens) {
    return Stop{FinishReason::length, std::nullopt};
  }
  return std::nullopt;
}

}  // namespace pagoda
