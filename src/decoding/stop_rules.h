#pragma once
// When a sequence ends because of its tokens: end of sequence, stop token, length. Stop strings are text
// and belong to whoever detokenizes. Order and definitions: vLLM's check_stop.
#include <optional>

#include "request/sequence.h"

namespace pagoda {

struct Stop {
  FinishReason reason;
  std::optional<TokenId> stop_token;  // absent for the first of the model's ends
};

// `num_tokens` and `num_output_tokens` count `token` already.
std::optional<Stop> check_stop(const SamplingParams& sampling, TokenId token, std::int32_t num_tokens,
                               std::int32_t num_output_tokens, std::int32_t max_model_len);

bool is_eos(const SamplingParams& sampling, TokenId token);  // false under ignore_eos

}  // namespace pagoda
