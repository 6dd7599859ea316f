#include "scheduler/orca_scheduler.h"

#include <algorithm>

#include "base/check.h"
#include "base/strings.h"
#include "scheduler/group_ops.h"

namespace pagoda {

OrcaScheduler::OrcaScheduler(const SchedulerConfig& config, ReservedKvManager& kv)
    : config_(config), kv_(kv) {
  CHECK(config_.max_num_seqs > 0 && config_.max_num_batched_tokens > 0 && config_.max_model_len > 0);
  CHECK(config_.enable_chunked_prefill || config_.max_num_batched_tokens >= config_.max_model_len);
  CHECK(config_.policy == SchedulingPolicy::fcfs);
}

std::int32_t OrcaScheduler::num_tokens_of(const Request& request) const {
  return max_tokens_of(request, config_.max_model_len);
}

Status OrcaScheduler::validate(const Request& request) const {
  const SamplingParams& sampling = request.sampling;
  if (sampling.use_beam_search && !serves_beams()) {
    return invalid_argument("Beam search needs --scheduler vllm or orca.").with_param("use_beam_search");
  }
  const std::int32_t width =
      sampling.use_beam_search ? sampling.width() : std::max(sampling.n, sampling.best_of);
  PAGODA_RETURN_IF_ERROR(check_lengths(request, width, config_));
  if (sampling.use_beam_search && width > config_.max_num_batched_tokens) {
    return invalid_argument(concat("A beam search of width ", width, " never takes its step together: ",
                                   "max_num_batched_tokens is ", config_.max_num_batched_tokens, "."))
        .with_param("beam_width");
  }
  const auto prompt = static_cast<std::int32_t>(request.prompt_token_ids.size());
  const std::int32_t total = num_tokens_of(request);
  if (kv_.can_ever_reserve(prompt, total, width - 1)) return ok_status();
  const bool alone = width > 1 && kv_.can_ever_reserve(prompt, total, 0);
  return invalid_argument(concat("The request can never fit: regions for ", width, " sequence(s) of up to ",
                                 total, " tokens cannot be reserved in a KV cache of ",
                                 kv_.geometry().tokens_alone(kv_.num_blocks()), " tokens."))
      .with_param(alone ? (sampling.best_of > sampling.n ? "best_of" : "n") : "max_tokens")
      .with_reason("context_length_exceeded");
}

void OrcaScheduler::add(SequenceGroup& group) {
  CHECK(!in_flight_ && group.sequences.size() == 1);
  group.order = ++next_order_;
  group.state = GroupState::waiting;
  waiting_.push_back(&group);
}

ScheduledBatch& OrcaScheduler::schedule() {
  CHECK(!in_flight_);
  in_flight_ = true;
  batch_.block_copies.clear();
  batch_.sequences.clear();
  batch_.num_tokens = 0;
  batch_.num_padded_tokens = 0;
  refs_.clear();
  if (may_admit()) admit();
  std::int32_t num_decodes = 0;
  for (const SequenceGroup* group : running_) {
    num_decodes += static_cast<std::int32_t>(
        std::ranges::count_if(group->sequences, [](const auto& sequence) { return sequence->decodes(); }));
  }
  tokens_left_ = config_.max_num_batched_tokens;
  prefill_left_ = std::max(0, tokens_left_ - num_decodes);
  for (SequenceGroup* group : running_) schedule_group(*group);
  num_padded_ += batch_.num_padded_tokens;
  on_scheduled();
  CHECK(!batch_.empty() || (waiting_.empty() && running_.empty()));
  return batch_;
}

// Never skips: a group that does not fit keeps all later ones waiting.
void OrcaScheduler::admit() {
  std::int32_t num_seqs = 0;
  for (const SequenceGroup* group : running_) num_seqs += group->num_reserved();
  while (!waiting_.empty()) {
    SequenceGroup& group = *waiting_.front();
    if (num_seqs + group.num_reserved() > config_.max_num_seqs || !may_join(group)) return;
    if (!may_bring_adapter(group, running_, config_)) return;
    Sequence& sequence = *group.sequences.front();
    kv_.add_sequence(sequence.id, sequence.tokens, "", false);
    if (!kv_.reserve(sequence.id, sequence.num_prompt_tokens, num_tokens_of(group.request),
                     group.max_live_sequences - 1,
                     group.lockstep ? ReservedKvManager::Forks::often : ReservedKvManager::Forks::once)) {
      kv_.free(sequence.id);
      return;
    }
    num_seqs += group.num_reserved();
    sequence.state = SequenceState::resident;
    group.num_cached_tokens = 0;
    group.state = GroupState::running;
    running_.push_back(&group);
    waiting_.pop_front();
  }
}

void OrcaScheduler::schedule_group(SequenceGroup& group) {
  // Beams take their step together or not at all; validate() ensures that all of them fit when alone.
  if (group.lockstep && group.forked && group.num_live() > tokens_left_) return;
  for (const auto& sequence : group.sequences) {
    if (sequence->state != SequenceState::resident) continue;
    std::int32_t count = sequence->num_missing();
    const bool decode = count == 1;
    const std::int32_t left = decode ? tokens_left_ : std::min(tokens_left_, prefill_left_);
    if (!decode && !config_.enable_chunked_prefill && count > left) continue;
    count = std::min(count, left);
    if (count == 0) continue;
    CHECK(kv_.grow(sequence->id, sequence->num_tokens(), batch_.block_copies));
    batch_.sequences.push_back(describe(group, *sequence, count, kv_.tables(sequence->id)));
    batch_.num_tokens += count;
    if (!group.forked) batch_.num_padded_tokens += (group.max_live_sequences - 1) * count;
    tokens_left_ -= count;
    if (!decode) prefill_left_ -= count;
    refs_.push_back({&group, sequence.get()});
  }
}

void OrcaScheduler::computed() {
  CHECK(in_flight_);
  for (std::size_t i = 0; i < refs_.size(); ++i) {
    Sequence& sequence = *refs_[i].sequence;
    sequence.num_computed_tokens += static_cast<std::int32_t>(batch_.sequences[i].tokens.size());
    kv_.computed(sequence.id, sequence.tokens, sequence.num_computed_tokens);
  }
}

void OrcaScheduler::release(Sequence& sequence) { release_kv(sequence, kv_); }

void OrcaScheduler::end(Sequence& sequence, FinishReason reason) {
  if (sequence.state == SequenceState::resident) release(sequence);
  finish_sequence(sequence, reason, kv_);
}

void OrcaScheduler::update(std::span<Change> changes) {
  CHECK(in_flight_);
  in_flight_ = false;
  for (Change& change : changes) {  // dropped beams first: the forks need their regions
    if (change.verb == Verb::free && change.discard && change.sequence->state == SequenceState::resident)
      release(*change.sequence);
  }
  for (Change& change : changes) {
    if (change.verb == Verb::free && change.sequence->state == SequenceState::resident)
      release(*change.sequence);
    apply_change(change, kv_);
  }
  for (const Change& change : changes) {
    if (change.verb == Verb::free && !change.group->finished()) settle(*change.group);
  }
  on_settled();
}

void OrcaScheduler::settle(SequenceGroup& group) {
  if (group.num_live() > 0) return;
  std::erase(waiting_, &group);
  std::erase(running_, &group);
  group.state = GroupState::finished;
}

void OrcaScheduler::abort(SequenceGroup& group) {
  CHECK(!in_flight_ && !group.finished());
  for (const auto& sequence : group.sequences) {
    if (!sequence->finished()) end(*sequence, FinishReason::abort);
  }
  settle(group);
  on_settled();
}

void OrcaScheduler::abort_sequence(SequenceGroup& group, Sequence& sequence) {
  CHECK(!in_flight_);
  if (sequence.finished()) return;
  end(sequence, FinishReason::abort);
  settle(group);
  on_settled();
}

Standing OrcaScheduler::standing(const SequenceGroup& group) const {
  Standing out;
  const bool running = group.state == GroupState::running;
  out.position = running ? std::ranges::find(running_, &group) - running_.begin()
                         : std::ranges::find(waiting_, &group) - waiting_.begin();
  if (running) {
    out.reason = "It is running.";
    return out;
  }
  out.blocks_needed = kv_.geometry().pages_alone(num_tokens_of(group.request), group.max_live_sequences);
  std::int64_t num_seqs = 0;
  for (const SequenceGroup* other : running_) num_seqs += other->num_reserved();
  if (!may_admit()) {
    out.code = StandingCode::batch;
    out.reason = concat("It waits: the batch of ", running_.size(), " request(s) runs to its end first.");
  } else if (out.position > 0) {
    out.code = StandingCode::before;
    out.reason = concat("It waits: ", out.position, " request(s) are ahead of it, and none is skipped.");
  } else if (num_seqs + group.num_reserved() > config_.max_num_seqs) {
    out.code = StandingCode::sequences;
    out.reason = concat("It waits: it runs ", group.num_reserved(), " sequence(s), and ", num_seqs,
                        " of max_num_seqs = ", config_.max_num_seqs, " are taken.");
  } else if (!may_bring_adapter(group, running_, config_)) {
    out.code = StandingCode::adapters;
    out.reason = adapters_taken("It waits", config_);
  } else {
    out.code = StandingCode::blocks;
    out.reason = concat("It waits for regions for its complete answers, ", out.blocks_needed,
                        " KV blocks or more; ", kv_.num_free_blocks(), " are free.");
  }
  return out;
}

SchedulerCounts OrcaScheduler::counts() const {
  SchedulerCounts out;
  out.waiting_groups = static_cast<std::int64_t>(waiting_.size());
  out.running_groups = static_cast<std::int64_t>(running_.size());
  for (const SequenceGroup* group : running_) out.running_sequences += group->num_live();
  out.padded_tokens = num_padded_;
  return out;
}

void OrcaScheduler::check_invariants() const {
  kv_.inspection().check_invariants();
  const auto earlier = [](const SequenceGroup* a, const SequenceGroup* b) { return a->order < b->order; };
  CHECK(std::ranges::is_sorted(waiting_, earlier) && std::ranges::is_sorted(running_, earlier));
  CHECK(waiting_.empty() || running_.empty() || running_.back()->order < waiting_.front()->order);
  std::int32_t num_seqs = 0;
  for (const SequenceGroup* group : running_) {
    CHECK(group->state == GroupState::running && group->num_live() > 0);
    num_seqs += group->num_reserved();
    for (const auto& sequence : group->sequences)
      CHECK(sequence->state == SequenceState::resident || sequence->finished());
  }
  for (const SequenceGroup* group : waiting_) {
    CHECK(group->state == GroupState::waiting && group->sequences.size() == 1);
    CHECK(group->sequences.front()->state == SequenceState::parked);
  }
  CHECK(num_seqs <= config_.max_num_seqs);
  CHECK(config_.max_adapters == 0 || num_adapters(running_) <= config_.max_adapters);
  CHECK(batch_.num_tokens <= config_.max_num_batched_tokens);
}

}  // namespace pagoda
