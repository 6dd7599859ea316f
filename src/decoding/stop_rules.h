#pragma once
// Decides when a sequence ends because of its tokens: end of sequence, stop token, length. Stop strings are
// text and are handled by the detokenizing layer. Order and definitions: vLLM's check_stop.
#include <optional>

#include "request/sequence.h"

namespace pagoda {

struct Stop {
  FinishReason reason;
  std::optional<TokenId> stop_token;  // absent for the first of the model's end-of-sequence tokens
};

// `num_tokens` and `num_output_tokens` include `token`.
std::optional<Stop> check_stop(const SamplingParams& sampling, TokenId token, std::int32_t num_tokens,
                               std::int32_t num_output_tokens, std::int32_t max_model_len);

bool is_eos(const SamplingParams& sampling, TokenId token);  // false if ignore_eos is set

}  // namespace pagoda
