#include "decoding/strategy.h"

#include <cmath>
#include <limits>

#include "base/strings.h"
#include "decoding/beam_search.h"
#include "decoding/diverse_beam_search.h"
#include "decoding/pooling.h"
#include "decoding/sampling.h"

namespace pagoda {
namespace {

constexpr std::int32_t kMaxBeamWidth = 128;
constexpr float kMaxLengthPenalty = 10, kMaxDiversityPenalty = 100;

Status refuse(std::string_view param, std::string_view problem) {
  return invalid_argument(concat("'", param, "' ", problem, ".")).with_param(std::string(param));
}

// A beam's score is the model's own log-probability: parameters that would change it are refused, not
// ignored.
Status check_beam_search(const SamplingParams& sampling, std::int32_t vocab_size) {
  constexpr std::string_view kNotWithBeams = "cannot be used with beam search";
  if (sampling.temperature != 0) return refuse("temperature", "must be 0 with beam search");
  if (sampling.top_p != 1) return refuse("top_p", kNotWithBeams);
  if (sampling.top_k > 0) return refuse("top_k", kNotWithBeams);
  if (sampling.min_p != 0) return refuse("min_p", kNotWithBeams);
  if (sampling.typical_p != 1) return refuse("typical_p", kNotWithBeams);
  if (sampling.repetition_penalty != 1) return refuse("repetition_penalty", kNotWithBeams);
  if (sampling.presence_penalty != 0) return refuse("presence_penalty", kNotWithBeams);
  if (sampling.frequency_penalty != 0) return refuse("frequency_penalty", kNotWithBeams);
  if (!sampling.logit_bias.empty()) return refuse("logit_bias", kNotWithBeams);
  if (!sampling.allowed_token_ids.empty()) return refuse("allowed_token_ids", kNotWithBeams);
  if (!sampling.bad_words.empty()) return refuse("bad_words", kNotWithBeams);
  if (sampling.min_tokens > 0) return refuse("min_tokens", kNotWithBeams);
  if (sampling.max_tokens < 1) return refuse("max_tokens", "must be at least 1 with beam search");

  const std::int32_t width = sampling.width();
  const std::string_view name = sampling.beam_width > 0         ? "beam_width"
                                : sampling.best_of > sampling.n ? "best_of"
                                                                : "n";
  if (width < sampling.n) return refuse(name, "must be at least 'n'");
  if (width > kMaxBeamWidth)
    return refuse(name, concat("must be at most ", kMaxBeamWidth, " with beam search"));
  if (vocab_size > 0 && 2 * width > vocab_size)
    return refuse(name, concat("must be at most half of the vocabulary, which has ", vocab_size, " tokens"));
  if (!(std::abs(sampling.length_penalty) <= kMaxLengthPenalty))
    return refuse("length_penalty", concat("must be from -", kMaxLengthPenalty, " to ", kMaxLengthPenalty));
  if (sampling.num_beam_groups < 1 || width % sampling.num_beam_groups != 0)
    return refuse("num_beam_groups", concat("must divide the beam width, which is ", width));
  if (!(sampling.diversity_penalty >= 0 && sampling.diversity_penalty <= kMaxDiversityPenalty))
    return refuse("diversity_penalty", concat("must be from 0 to ", kMaxDiversityPenalty));
  if (sampling.diversity_penalty > 0 && sampling.num_beam_groups == 1)
    return refuse("diversity_penalty", "needs 'num_beam_groups' above 1");
  return ok_status();
}

}  // namespace

void make_sortable(SequenceResult& result) {
  for (Candidate& candidate : result.candidates) {
    if (std::isnan(candidate.logprob)) candidate.logprob = -std::numeric_limits<float>::infinity();
  }
  for (SequenceResult& after : result.after_drafts) make_sortable(after);
}

Status check_decoding(const SamplingParams& sampling, std::int32_t vocab_size) {
  if (sampling.best_of < sampling.n && sampling.best_of > 1) return refuse("best_of", "must be at least 'n'");
  if (sampling.use_beam_search) return check_beam_search(sampling, vocab_size);
  if (sampling.beam_width > 0) return refuse("beam_width", "needs 'use_beam_search'");
  if (sampling.num_beam_groups != 1) return refuse("num_beam_groups", "needs 'use_beam_search'");
  if (sampling.diversity_penalty != 0) return refuse("diversity_penalty", "needs 'use_beam_search'");
  return ok_status();
}

std::unique_ptr<DecodingStrategy> make_strategy(const Request& request, std::int32_t max_model_len) {
  const SamplingParams& sampling = request.sampling;
  if (request.work.pools()) return std::make_unique<PoolingStrategy>();
  if (sampling.use_beam_search && sampling.num_beam_groups > 1)
    return std::make_unique<DiverseBeamSearchStrategy>(max_model_len);
  if (sampling.use_beam_search) return std::make_unique<BeamSearchStrategy>(max_model_len);
  return std::make_unique<SamplingStrategy>(max_model_len);
}

}  // namespace pagoda
