#pragma once
// NgramProposer: prompt lookup: if the latest tokens have stood in the sequence before, what followed them
// there may follow again: quotations, edits of code, lists. No model, no state but each sequence's
// DraftHistory. How many of the drafts are worth computing is draft_policy.h's.
// Source: prompt lookup decoding (A. Saxena); names and meaning of the parameters: vLLM's method "ngram".
// Threads: none; owned by the engine thread.
#include <optional>
#include <span>
#include <vector>

#include "decoding/draft_proposer.h"
#include "decoding/speculative_config.h"

namespace pagoda {

struct NgramMatch {
  std::vector<TokenId> draft;   // the next `count` tokens
  std::int32_t num_agreed = 0;  // tokens before it that agree
};
inline constexpr std::int32_t kMaxAgreed = 32;

// The earlier place in `tokens` that agrees furthest with their end, if that is `min` tokens or more; beyond
// the larger of `max` and kMaxAgreed nothing is compared, and of several places it is the latest. A draft
// that runs into the end of `tokens` goes on with itself.
std::optional<NgramMatch> find_ngram(std::span<const TokenId> tokens, std::int32_t min, std::int32_t max,
                                     std::int32_t count);

class NgramProposer final : public SequenceProposer {
 public:
  using SequenceProposer::propose;
  explicit NgramProposer(const SpeculativeConfig& config) : config_(config) {}
  void propose(const SequenceGroup& group, Sequence& sequence, std::int32_t limit,
               std::int32_t num_decodes) override;
  void verified(Sequence& sequence, std::int32_t num_tried, std::int32_t num_accepted) override;

 private:
  const SpeculativeConfig config_;
};

}  // namespace pagoda
