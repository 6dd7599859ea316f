#include "scheduler/vllm_scheduler.h"

#include <algorithm>
#include <ranges>

#include "base/check.h"
#include "base/strings.h"
#include "scheduler/group_ops.h"

namespace pagoda {

VllmScheduler::VllmScheduler(const SchedulerConfig& config, KvManager& kv,
                             std::unique_ptr<AdmissionOrder> order)
    : config_(config),
      kv_(kv),
      geometry_(kv.geometry()),
      sharing_(kv.sharing()),
      swap_(kv.swap()),
      order_(order ? std::move(order) : make_admission_order(config.policy)),
      takes_turns_(order_->takes_turns()),
      has_states_(geometry_.has_states()),
      watermark_blocks_(kv.num_blocks() / 100),
      token_budget_(config.max_num_batched_tokens) {
  CHECK(config_.max_num_seqs > 0 && config_.max_num_batched_tokens > 0 && config_.max_model_len > 0);
  // A prompt that must run whole needs a budget that holds any prompt.
  CHECK(config_.enable_chunked_prefill || config_.max_num_batched_tokens >= config_.max_model_len);
}

Status VllmScheduler::validate(const Request& request) const {
  const auto prompt = static_cast<std::int64_t>(request.prompt_token_ids.size());
  const SamplingParams& sampling = request.sampling;
  if (prompt == 0) return invalid_argument("The prompt is empty.").with_param("prompt");
  if (prompt + (sampling.max_tokens > 0 ? 1 : 0) > config_.max_model_len) {
    return invalid_argument(concat("This model's maximum context length is ", config_.max_model_len,
                                   " tokens. However, your prompt has ", prompt,
                                   " tokens, which leaves no room for an answer."))
        .with_param("prompt")
        .with_reason("context_length_exceeded");
  }
  const std::int32_t width =
      sampling.use_beam_search ? sampling.width() : std::max(sampling.n, sampling.best_of);
  const char* const width_name = sampling.use_beam_search && sampling.beam_width > 0 ? "beam_width"
                                 : sampling.best_of > sampling.n                     ? "best_of"
                                                                                     : "n";
  if (width > config_.max_num_seqs) {
    return invalid_argument(concat(width_name, " = ", width,
                                   " sequences can never run together: max_num_seqs is ",
                                   config_.max_num_seqs, "."))
        .with_param(width_name);
  }
  const std::int64_t total = max_tokens_of(request, config_.max_model_len);
  // Only what any thread may read is read here: others call this while the engine runs. What is pinned
  // may start this prompt, but it counts as if not.
  const std::int64_t usable = kv_.num_blocks() - sharing_.num_pinned_blocks();
  const std::int64_t needed = geometry_.pages_alone(total, 1, 0, request.work.whole_prompt);
  if (needed > usable) {
    const std::int64_t most = geometry_.tokens_alone(usable);
    return invalid_argument(concat("The request can never fit: it may need ", total,
                                   " tokens of KV cache (prompt ", prompt,
                                   " + max_tokens), and the whole KV cache holds ", most,
                                   usable < kv_.num_blocks() ? " beside the pinned prefixes." : "."))
        .with_param(prompt > most ? "prompt" : "max_tokens")
        .with_reason("context_length_exceeded");
  }
  if (request.work.whole_prompt && prompt > config_.max_num_batched_tokens) {
    return invalid_argument(concat("The prompt has ", prompt,
                                   " tokens and has to be computed in one step: "
                                   "max_num_batched_tokens is ",
                                   config_.max_num_batched_tokens, "."))
        .with_param("prompt")
        .with_reason("context_length_exceeded");
  }
  // Samples can run one after the other.
  if (!sampling.use_beam_search) return kv_.check_alone(1, total, needed);
  if (width > config_.max_num_batched_tokens) {
    return invalid_argument(concat(width_name, " = ", width,
                                   " beams can never take a step together: max_num_batched_tokens is ",
                                   config_.max_num_batched_tokens, "."))
        .with_param(width_name);
  }
  const std::int64_t blocks = geometry_.pages_alone(total, width, prompt);
  if (blocks > usable) {
    return invalid_argument(concat("The request can never fit: ", width, " beams of ", total,
                                   " tokens may need ", blocks, " KV blocks, and the whole KV cache has ",
                                   usable, "."))
        .with_param("max_tokens");
  }
  return kv_.check_alone(width, total, blocks);
}

void VllmScheduler::add(SequenceGroup& group) {
  CHECK(!in_flight_ && group.sequences.size() == 1);
  group.order = ++next_order_;
  group.rank = order_->arrived(order_record(group.request), group.account);
  group.state = GroupState::waiting;
  waiting_.insert(&group);
}

ScheduledBatch& VllmScheduler::schedule() {
  CHECK(!in_flight_);
  in_flight_ = true;
  batch_.swap_out.clear();
  batch_.swap_in.clear();
  batch_.block_copies.clear();
  batch_.page_maps.clear();
  batch_.page_maps_ahead.clear();
  batch_.state_copies.clear();
  batch_.sequences.clear();
  batch_.num_tokens = 0;
  refs_.clear();
  preempted_.clear();

  tokens_left_ = std::clamp(token_budget_, 1, config_.max_num_batched_tokens);
  num_in_turn_ = running_.size();
  if (takes_turns_) let_newcomers_in();
  const bool all_in_turn = num_in_turn_ == running_.size();
  // Oldest first, so that whoever has to make room has not been put into the batch yet.
  for (std::size_t i = 0; i < std::min(num_in_turn_, running_.size()); ++i)
    schedule_group(i, Siblings::resume);
  num_in_turn_ = running_.size();
  // A group that was just preempted must not come straight back, nor anyone before it.
  if (preempted_.empty() && all_in_turn) admit();
  CHECK(!batch_.empty() || (waiting_.empty() && running_.empty() && swapped_.empty()));
  for (std::size_t i = 0; has_states_ && i < batch_.sequences.size(); ++i) {
    const ScheduledSequence& sequence = batch_.sequences[i];
    const auto tokens = static_cast<std::int32_t>(sequence.tokens.size()) - sequence.num_draft_tokens;
    kv_.copy_states(sequence.id, static_cast<std::int32_t>(i), sequence.num_computed_tokens + tokens,
                    batch_.state_copies);
  }
  if (!batch_.empty()) kv_.take_page_mappings(batch_.page_maps, batch_.page_maps_ahead);
  return batch_;
}

// Tokens for prompts: decodes of this group and of later ones go first. But the oldest always gets on, for
// the later ones may yet have to give way.
std::int32_t VllmScheduler::prefill_left(std::size_t position) const {
  if (position == 0 && runs_whole(*running_[position])) return tokens_left_;
  return std::max(tokens_left_ - decodes_from(position), position == 0 ? std::min(1, tokens_left_) : 0);
}

// Decodes of this group and later ones; at most the tokens left.
std::int32_t VllmScheduler::decodes_from(std::size_t position) const {
  std::int32_t count = 0;
  for (std::size_t i = position; i < num_in_turn() && count < tokens_left_; ++i) {
    const SequenceGroup& group = *running_[i];
    if (group.lockstep && !lockstep_ready(group)) continue;
    for (const auto& sequence : group.sequences) count += sequence->decodes() ? 1 : 0;
  }
  return count;
}

// Tokens that others than decodes could still take in this step: this group, later ones, and those who wait.
// About, for those may find some of theirs in the prefix cache; little more than the tokens left.
std::int32_t VllmScheduler::prompts_from(std::size_t position) const {
  std::int32_t count = 0;
  for (std::size_t i = position; i < num_in_turn() && count < tokens_left_; ++i) {
    for (const auto& sequence : running_[i]->sequences) {
      if (sequence->state == SequenceState::resident && sequence->num_missing() > 1)
        count += sequence->num_missing();
    }
  }
  if (nobody_let_in_) return count;
  for (const SequenceGroup* group : swapped_.empty() ? waiting_ : swapped_) {
    if (count >= tokens_left_) break;
    const auto leader = std::ranges::find_if(group->sequences, [](const auto& s) { return !s->finished(); });
    count += std::max((*leader)->num_missing(), group->num_live());
  }
  return count;
}

void VllmScheduler::take(SequenceGroup& group, Sequence& sequence, std::int32_t count,
                         std::int32_t num_draft_tokens) {
  batch_.sequences.push_back(describe(group, sequence, count, kv_.tables(sequence.id), num_draft_tokens));
  batch_.num_tokens += count + num_draft_tokens;
  tokens_left_ -= count + num_draft_tokens;
  refs_.push_back({&group, &sequence});
}

void VllmScheduler::schedule_group(std::size_t position, Siblings siblings) {
  SequenceGroup& group = *running_[position];
  const std::size_t first_in_batch = batch_.sequences.size();
  const std::size_t first_copy = batch_.block_copies.size();
  const std::int32_t tokens_before = batch_.num_tokens;
  if (siblings == Siblings::resume && group.sequences.size() > 1) {
    resume_siblings(position);
    if (group.state != GroupState::running) return;
  }
  const bool ready = !group.lockstep || lockstep_ready(group);
  // Beams take their step together or not at all. But the oldest always gets on, even where the budget was
  // set while some of them were parked.
  if (group.lockstep && group.forked && ready && group.num_live() > tokens_left_) {
    if (position > 0 || !batch_.empty()) return;
    tokens_left_ = group.num_live();
  }
  for (const auto& entry : group.sequences) {
    Sequence& sequence = *entry;
    if (sequence.state != SequenceState::resident) continue;
    std::int32_t count = sequence.num_missing();
    if (count == 1 && !ready) continue;
    if (count == 1) {
      count = std::min(count, tokens_left_);
    } else {
      if (!ready) --count;
      const std::int32_t left = siblings == Siblings::wait ? tokens_left_ : prefill_left(position);
      if (runs_whole(group) && count > left) continue;
      count = std::min(count, left);
    }
    if (count == 0) continue;
    switch (make_space(position, sequence, count)) {
      case Room::ok:
        take(group, sequence, count, make_room_for_drafts(position, sequence, count));
        break;
      case Room::sequence_parked:
        break;
      case Room::group_preempted:  // take back what the group already has in the batch
        tokens_left_ += batch_.num_tokens - tokens_before;
        batch_.num_tokens = tokens_before;
        batch_.sequences.resize(first_in_batch);
        batch_.block_copies.resize(first_copy);
        refs_.resize(first_in_batch);
        return;
    }
  }
}

// The prompt's one sequence may sample on its own; beams wait until all of them have caught up.
bool VllmScheduler::lockstep_ready(const SequenceGroup& group) const {
  return !group.forked || std::ranges::all_of(group.sequences, [](const auto& sequence) {
    return sequence->finished() || sequence->decodes();
  });
}

bool VllmScheduler::has_parked(const SequenceGroup& group) const {
  return group.sequences.size() > 1 && std::ranges::any_of(group.sequences, [](const auto& sequence) {
           return sequence->state == SequenceState::parked;
         });
}

void VllmScheduler::admit() {
  const std::size_t num_waiting = waiting_.size() + swapped_.size();
  nobody_let_in_ = false;
  if (num_waiting == 0) return;
  admit_in_order();
  nobody_let_in_ = tokens_left_ > 0 && waiting_.size() + swapped_.size() == num_waiting;
}

void VllmScheduler::admit_in_order() {
  std::int32_t num_seqs = 0;
  for (const SequenceGroup* group : running_) {
    if (has_parked(*group)) return;
    num_seqs += group->num_reserved();
  }
  if (!resume_swapped(num_seqs)) return;
  while (!waiting_.empty() && tokens_left_ > 0) {
    SequenceGroup& group = next_waiting();
    if (num_seqs + group.num_reserved() > config_.max_num_seqs) return;
    if (!try_admit(group)) return;
    num_seqs += group.num_reserved();
    waiting_.erase(&group);
    run_now(group);
    if (has_parked(group)) return;
  }
}

// The first waiting group of the tenant whose turn it is; turns change with every step.
SequenceGroup& VllmScheduler::next_waiting() const {
  auto next = waiting_.begin();
  if (!takes_turns_) return **next;
  std::int64_t least = order_->turn((*next)->account);
  for (auto it = std::next(next); it != waiting_.end(); ++it) {
    const std::int64_t turn = order_->turn((*it)->account);
    if (turn >= least) continue;
    least = turn;
    next = it;
  }
  return **next;
}

void VllmScheduler::run_now(SequenceGroup& group) {
  begin_running(group);
  const auto place = std::ranges::upper_bound(running_, &group, waiting_.key_comp());
  const std::size_t position = static_cast<std::size_t>(place - running_.begin());
  running_.insert(place, &group);
  schedule_group(position, Siblings::wait);  // whoever they might displace is in the batch already
  // A gang whose leader was all in the prefix cache has nothing to compute before its siblings are back.
  if (batch_.empty()) schedule_group(position, Siblings::resume);
}

bool VllmScheduler::try_admit(SequenceGroup& group) {
  const bool alone = running_.empty();
  const std::int64_t free_before = kv_.num_available_blocks();
  if (!alone && free_before < group.retry_free_blocks) return false;
  const std::int64_t margin = alone ? 0 : watermark_blocks_;
  const std::int64_t gang = group.resume_blocks > 0 ? group.resume_blocks + group.num_live() + margin : 0;
  if (!alone && free_before < gang) {
    group.retry_free_blocks = std::min(gang, kv_.num_blocks());
    return false;
  }
  const auto leader_at = std::ranges::find_if(group.sequences, [](const auto& s) { return !s->finished(); });
  CHECK(leader_at != group.sequences.end());
  Sequence& leader = **leader_at;
  const std::int32_t cached =
      kv_.add_sequence(leader.id, leader.tokens, group.prefix_salt(), group.takes_cached_prefix());
  leader.state = SequenceState::resident;
  leader.num_computed_tokens = cached;
  if (alone && batch_.empty() && runs_whole(group))
    tokens_left_ = std::max(tokens_left_, leader.num_missing());
  std::int32_t chunk = leader.num_missing();
  if (!runs_whole(group)) chunk = std::min(chunk, tokens_left_);
  const auto needed_for = [&](std::int32_t tokens) {
    return kv_.pages_to_promise(leader.id, leader.num_tokens(), tokens);
  };
  // Alone, it takes small steps rather than none.
  if (alone && !runs_whole(group) && needed_for(chunk) > kv_.num_available_blocks()) chunk = 1;
  const std::int64_t needed = needed_for(chunk);
  const bool fits = needed + margin <= kv_.num_available_blocks();
  const bool in_budget = !runs_whole(group) || leader.num_missing() <= tokens_left_;
  if (prefix_under_way(group, leader, cached)) {
    release_kv(leader, kv_);
    return false;
  }
  if (!fits || !in_budget) {
    CHECK(fits || !alone);
    if (!fits)
      group.retry_free_blocks =
          std::min(kv_.num_blocks(), free_before - kv_.num_available_blocks() + needed + margin);
    release_kv(leader, kv_);
    return false;
  }
  CHECK(kv_.promise(leader.id, leader.num_tokens(), chunk));
  std::int32_t one = 1;
  const std::int32_t length = leader.num_tokens();
  if (!kv_.make_ready(needed, std::span(&length, 1)) || !try_grow(group, leader, one)) {
    CHECK(!alone);  // beside blocks, a manager may lack something else for the moment
    release_kv(leader, kv_);
    return false;
  }
  group.retry_free_blocks = 0;
  if (group.num_cached_tokens < 0) group.num_cached_tokens = std::min(cached, leader.num_prompt_tokens);
  return true;
}

// Only of this step: so it gets on, and whoever waits for it does not wait for ever. Nor does that cost time:
// the common tokens are computed no later than `leader` would compute them.
bool VllmScheduler::prefix_under_way(const SequenceGroup& group, const Sequence& leader,
                                     std::int32_t cached) {
  if (!sharing_.caches_prefixes() || !group.takes_cached_prefix()) return false;
  return std::ranges::any_of(refs_, [&](const ScheduledRef& ref) {
    const Sequence& other = *ref.sequence;
    if (other.num_missing() == 1 || ref.group->prefix_salt() != group.prefix_salt()) return false;
    const std::int32_t common =
        sharing_.shareable(other.id, std::min(common_prefix(other, leader), leader.num_tokens() - 1));
    if (common <= cached || common <= other.num_computed_tokens) return false;
    sharing_.keep_shareable(other.id, common);
    return true;
  });
}

void VllmScheduler::preempt(SequenceGroup& group, bool may_swap) {
  std::vector<SequenceId> ids;
  for (const auto& sequence : group.sequences) {
    if (sequence->state == SequenceState::resident) ids.push_back(sequence->id);
  }
  group.retry_free_blocks = 0;
  ++group.num_preemptions;
  ++num_preemptions_;
  std::erase(running_, &group);
  if (takes_turns_) order_->gave_way(group.account);
  if (may_swap && try_swap_out(group, ids)) {
    group.state = GroupState::swapped;
    swapped_.insert(&group);
  } else {
    group.resume_blocks = ids.size() > 1 ? sharing_.blocks_owned_by(ids) : 0;
    for (const auto& sequence : group.sequences) release_kv(*sequence, kv_);
    wait_again(group);
  }
  preempted_.push_back(&group);
}

}  // namespace pagoda
