#include "sampler/logits_processor.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace pagoda {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();
constexpr std::uint32_t kRepetitionDone = 1u << 31;  // the other bits count output tokens

bool in_range(TokenId token, std::span<const float> logits) {
  return token >= 0 && static_cast<std::size_t>(token) < logits.size();
}

void mask(TokenId token, std::span<float> logits) {
  if (in_range(token, logits)) logits[static_cast<std::size_t>(token)] = kMasked;
}

// Masks the last token of `word` if the output ends with all tokens before it.
void mask_bad_word(const std::vector<TokenId>& word, std::span<const TokenId> output,
                   std::span<float> logits) {
  if (word.empty() || word.size() - 1 > output.size()) return;
  const std::span<const TokenId> tail = output.last(word.size() - 1);
  if (std::equal(tail.begin(), tail.end(), word.begin())) mask(word.back(), logits);
}

bool has_penalties(const SamplingParams& params) {
  return params.repetition_penalty != 1.0f || params.frequency_penalty != 0.0f ||
         params.presence_penalty != 0.0f;
}

bool has_masked_stops(const SamplingParams& params, std::int32_t num_output_tokens) {
  return num_output_tokens < params.min_tokens &&
         !(params.stop_token_ids.empty() && params.eos_token_ids.empty());
}

}  // namespace

bool needs_processing(const SamplingParams& params, std::int32_t num_output_tokens) {
  return !params.allowed_token_ids.empty() || !params.bad_words.empty() || !params.logit_bias.empty() ||
         has_penalties(params) || has_masked_stops(params, num_output_tokens);
}

void LogitsProcessor::process(const SamplingParams& params, std::span<const TokenId> prompt,
                              std::span<const TokenId> output, std::span<float> logits) {
  if (!params.allowed_token_ids.empty()) {
    kept_.clear();
    for (const TokenId token : params.allowed_token_ids) {
      kept_.push_back(in_range(token, logits) ? logits[static_cast<std::size_t>(token)] : kMasked);
    }
    std::fill(logits.begin(), logits.end(), kMasked);
    for (std::size_t i = 0; i < kept_.size(); ++i) {
      const TokenId token = params.allowed_token_ids[i];
      if (in_range(token, logits)) logits[static_cast<std::size_t>(token)] = kept_[i];
    }
  }
  for (const std::vector<TokenId>& word : params.bad_words) mask_bad_word(word, output, logits);
  if (has_masked_stops(params, static_cast<std::int32_t>(output.size()))) {
    for (const TokenId token : params.stop_token_ids) mask(token, logits);
    for (const TokenId token : params.eos_token_ids) mask(token, logits);
  }
  for (const auto& [token, bias] : params.logit_bias) {
    if (in_range(token, logits)) logits[static_cast<std::size_t>(token)] += bias;
  }
  if (has_penalties(params)) apply_penalties(params, prompt, output, logits);
}

void LogitsProcessor::apply_penalties(const SamplingParams& params, std::span<const TokenId> prompt,
                                      std::span<const TokenId> output, std::span<float> logits) {
  if (marks_.size() < logits.size()) marks_.resize(logits.size(), 0);
  for (const TokenId token : output) {
    if (in_range(token, logits)) ++marks_[static_cast<std::size_t>(token)];
  }
  if (params.repetition_penalty != 1.0f) {
    for (const std::span<const TokenId> tokens : {prompt, output}) {
      for (const TokenId token : tokens) {
        if (!in_range(token, logits)) continue;
        std::uint32_t& seen = marks_[static_cast<std::size_t>(token)];
        if ((seen & kRepetitionDone) != 0) continue;
        seen |= kRepetitionDone;
        float& logit = logits[static_cast<std::size_t>(token)];
        if (!std::isfinite(logit)) continue;  // masked, and stays masked
        // A penalty never makes a finite logit infinite, since infinities cannot be compared.
        logit = std::clamp(logit > 0 ? logit / params.repetition_penalty : logit * params.repetition_penalty,
                           -kLargest, kLargest);
      }
    }
  }
  for (const TokenId token : output) {
    if (!in_range(token, logits)) continue;
    std::uint32_t& seen = marks_[static_cast<std::size_t>(token)];
    const std::uint32_t count = seen & ~kRepetitionDone;
    seen = 0;  // each token once, and reset for the next call
    if (count == 0) continue;
    float& logit = logits[static_cast<std::size_t>(token)];
    logit -= params.frequency_penalty * static_cast<float>(count);
    logit -= params.presence_penalty;
  }
  if (params.repetition_penalty != 1.0f) {
    for (const TokenId token : prompt) {
      if (in_range(token, logits)) marks_[static_cast<std::size_t>(token)] = 0;
    }
  }
}

}  // namespace pagoda
