#pragma once
// Change: one of the three operations that all decoding strategies consist of (PagedAttention §5.2): fork,
// append, free. decoding/ derives them from a step's candidates; the scheduler applies them in order.
#include <cstdint>
#include <memory>
#include <optional>

#include "request/sequence.h"

namespace pagoda {

enum class Verb : std::uint8_t {
  fork,    // `child` becomes a copy of `sequence` and shares its K/V
  append,  // `token` is added to `sequence`; its K/V is not computed yet
  free,    // `sequence` ends for `reason` and gives its K/V back
};

struct Change {
  Verb verb = Verb::append;
  SequenceGroup* group = nullptr;
  Sequence* sequence = nullptr;

  // fork: holds only the child's id and index; the rest is copied. Moved into the group.
  std::unique_ptr<Sequence> child = nullptr;

  // append
  TokenId token = -1;
  float logprob = 0;
  std::optional<TokenLogprobs> logprobs = std::nullopt;  // if requested
  double cumulative_logprob = 0;  // the sequence's log-probability after the change; set when it is applied

  // free
  FinishReason reason = FinishReason::stop;
  std::optional<TokenId> stop_token = std::nullopt;
  bool discard = false;  // a dropped beam: removed entirely, not a choice of the answer
};

// Generates the sequence ids of one engine.
class SequenceIds {
 public:
  SequenceId next() { return SequenceId{++last_}; }

 private:
  std::uint64_t last_ = 0;
};

}  // namespace pagoda
