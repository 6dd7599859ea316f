#pragma once
// SamplingStrategy: greedy, sampling, parallel sampling (n) and best_of. The prompt is computed once by
// one sequence; its logits give best_of first tokens, and best_of - 1 forks share its blocks (§4.4).
// Draft tokens are accepted as long as they equal the sampled ones, so the output is the same as without
// drafts.
// With best_of > n there is no output before the end: the answer is the n best by cumulative
// log-probability, best first.
#include "decoding/strategy.h"

namespace pagoda {

class SamplingStrategy final : public DecodingStrategy {
 public:
  explicit SamplingStrategy(std::int32_t max_model_len) : max_model_len_(max_model_len) {}
  void start(SequenceGroup& group) override;
  void advance(SequenceGroup& group, std::span<SampledSequence> sampled, SequenceIds& ids,
               std::vector<Change>& changes) override;
  void report(const SequenceGroup& group, std::span<Change> changes,
              std::vector<SequenceDelta>& out) override;

 private:
  // Returns false if the sequence ends with this candidate. `length` does not include it.
  bool append(SequenceGroup& group, Sequence& sequence, const Candidate& candidate,
              const std::vector<TokenLogprob>& top, std::int32_t length, std::vector<Change>& changes) const;
  const std::int32_t max_model_len_;
};

}  // namespace pagoda
