#pragma once
// Applies a request's parameters to its logits before a token is chosen, up to and including the penalties;
// temperature and the cuts after it are in distribution.h. Source of meaning and order: vLLM's v1 sampler:
// allowed_token_ids, bad_words, min_tokens, logit_bias, repetition, frequency, presence. Ids outside the
// vocabulary are ignored; api/ rejects them.
#include <cstdint>
#include <span>
#include <vector>

#include "request/sampling_params.h"

namespace pagoda {

// False if LogitsProcessor::process() would change nothing, so that the raw logits can be read in place.
bool needs_processing(const SamplingParams& params, std::int32_t num_output_tokens);

class LogitsProcessor {
 public:
  // Changes logits [vocab] in place. `prompt` and `output` are the tokens so far.
  void process(const SamplingParams& params, std::span<const TokenId> prompt, std::span<const TokenId> output,
               std::span<float> logits);

 private:
  void apply_penalties(const SamplingParams& params, std::span<const TokenId> prompt,
                       std::span<const TokenId> output, std::span<float> logits);

  std::vector<std::uint32_t> marks_;  // per token, all zero between calls
  std::vector<float> kept_;
};

}  // namespace pagoda
