#pragma once
// NgramProposer: prompt lookup: if the latest tokens occurred earlier in the sequence, the tokens that
// followed them there may follow again: quotations, edits of code, lists. No model, and no state except each
// sequence's DraftHistory. draft_policy.h decides how many drafts are worth computing. Source: prompt lookup
// decoding (A. Saxena); names and meaning of the parameters: vLLM's method "ngram". Threads: none; owned by
// the engine thread.
#include <optional>
#include <span>
#include <vector>

#include "decoding/draft_proposer.h"
#include "decoding/speculative_config.h"

namespace pagoda {

struct NgramMatch {
  std::vector<TokenId> draft;   // the next `count` tokens
  std::int32_t num_agreed = 0;  // number of matching tokens before the draft
};
inline constexpr std::int32_t kMaxAgreed = 32;

// Finds the earlier position in `tokens` with the longest match to their end, if at least `min` tokens match.
// At most max(`max`, kMaxAgreed) tokens are compared; of equal matches the latest position wins. A draft that
// reaches the end of `tokens` continues with its own tokens.
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
