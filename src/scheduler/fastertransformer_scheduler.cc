#include "scheduler/fastertransformer_scheduler.h"

#include <algorithm>

#include "base/check.h"

namespace pagoda {

bool FasterTransformerScheduler::may_join(const SequenceGroup& group) const {
  const auto prompt_of = [](const SequenceGroup& g) {
    return static_cast<std::int32_t>(g.request.prompt_token_ids.size());
  };
  std::int32_t prompt = prompt_of(group), answer = num_tokens_of(group.request) - prompt;
  for (const SequenceGroup* other : running_) {
    prompt = std::max(prompt, prompt_of(*other));
    answer = std::max(answer, num_tokens_of(other->request) - prompt_of(*other));
  }
  return running_.empty() || prompt + answer <= config_.max_model_len;
}

void FasterTransformerScheduler::release(Sequence& sequence) {
  kv_.retire(sequence.id);
  retired_.push_back(sequence.id);
  sequence.state = SequenceState::parked;
  sequence.num_computed_tokens = 0;
}

void FasterTransformerScheduler::on_scheduled() {
  std::size_t longest = 0;
  for (const ScheduledSequence& sequence : batch_.sequences)
    longest = std::max(longest, sequence.tokens.size());
  const std::size_t rows = batch_.sequences.size() + retired_.size();
  num_padded_ -= batch_.num_padded_tokens;
  batch_.num_padded_tokens = static_cast<std::int32_t>(rows * longest) - batch_.num_tokens;
  batch_.num_padded_sequences = static_cast<std::int32_t>(retired_.size());
  num_padded_ += batch_.num_padded_tokens;
}

void FasterTransformerScheduler::on_settled() {
  if (!running_.empty()) return;
  for (const SequenceId id : retired_) kv_.free(id);
  retired_.clear();
}

void FasterTransformerScheduler::check_invariants() const {
  OrcaScheduler::check_invariants();
  CHECK(!running_.empty() || retired_.empty());
}

}  // namespace pagoda
