#pragma once
// DecodingStrategy: turns the candidates sampled for the sequences of one request into the operations fork,
// append and free, and these into output for the client. One object per request; it changes nothing
// itself: the scheduler applies the operations. A new way of decoding is a new subclass.
//
//     start -> [ advance -> (verbs applied) -> report ]* -> group finished
//
// Source: PagedAttention (SOSP'23) §5.2.
// Threads: none; owned by the engine thread.
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "request/changes.h"
#include "request/step_result.h"

namespace pagoda {

struct SampledSequence {
  Sequence* sequence = nullptr;
  SequenceResult* result = nullptr;  // may be moved from
  // Drafts computed with the sequence; result->after_drafts belongs to them. Only if the strategy has no
  // lockstep and requests one candidate.
  std::span<const TokenId> draft = {};
  std::vector<float>* vector = nullptr;  // set for pooling sequences; may be moved from
};

class DecodingStrategy {
 public:
  virtual ~DecodingStrategy() = default;

  // Sets the group's and its first sequence's decoding fields.
  virtual void start(SequenceGroup& group) = 0;

  // Appends to `changes` the consequences of the sequences that sampled in this step.
  virtual void advance(SequenceGroup& group, std::span<SampledSequence> sampled, SequenceIds& ids,
                       std::vector<Change>& changes) = 0;

  // Appends the output for the client, if any; called after the changes were applied (or the group was
  // aborted, without changes).
  virtual void report(const SequenceGroup& group, std::span<Change> changes,
                      std::vector<SequenceDelta>& out) = 0;
};

// Replaces NaN, which only a broken model produces, with the worst log-probability, so that NaN cannot break
// the sorting in this step or, through sums, in later ones. For advance().
void make_sortable(SequenceResult& result);

// invalid_argument, naming the parameter, if no strategy supports this combination. Safe from any thread.
Status check_decoding(const SamplingParams& sampling, std::int32_t vocab_size);

// The strategy for the request, which must have passed check_decoding().
std::unique_ptr<DecodingStrategy> make_strategy(const Request& request, std::int32_t max_model_len);

}  // namespace pagoda
