#include "engine/engine_core.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/random.h"
#include "base/strings.h"
#include "scheduler/group_ops.h"

namespace pagoda {
namespace {

const Status kDeadEnd =
    invalid_argument("The constraint on the answer has come to a dead end: no token may follow.")
        .with_reason("constraint_dead_end");

SampledSequence sampled(const ScheduledSequence& scheduled, Sequence& sequence, SequenceResult& result,
                        std::vector<float>* vector) {
  CHECK(std::cmp_equal(result.after_drafts.size(), scheduled.num_draft_tokens));
  // Behind a dead end there is nothing to take.
  const auto live = std::ranges::find(result.after_drafts, true, &SequenceResult::dead_end);
  result.after_drafts.erase(live, result.after_drafts.end());
  return {.sequence = &sequence,
          .result = &result,
          .draft = scheduled.all_tokens.last(static_cast<std::size_t>(scheduled.num_draft_tokens))
                       .first(result.after_drafts.size()),
          .vector = vector};
}

}  // namespace

EngineCore::EngineCore(const EngineConfig& config, EngineParts parts, const Clock& clock,
                       MetricsRegistry& registry)
    : config_(config),
      parts_(std::move(parts)),
      clock_(clock),
      metrics_(registry, config, *parts_.kv),
      costs_(config.preemption_costs),
      budget_(config.target_itl_ms / 1e3, config.max_num_batched_tokens) {
  CHECK(pagoda::validate(config).ok());
  parts_.scheduler->set_preemption_costs(costs_.costs());
  if (config.speculative) proposer_ = std::make_unique<NgramProposer>(*config.speculative);
  limits_ = {.max_model_len = config.max_model_len,
             .kv_cache_tokens = parts_.kv->geometry().tokens_alone(parts_.kv->num_blocks()),
             .max_num_seqs = config.max_num_seqs,
             .vocab_size = config.vocab_size};
}

EngineCore::~EngineCore() = default;

EngineCore::RequestState& EngineCore::state_of(const SequenceGroup& group) {
  const auto it = requests_.find(group.request.id);
  CHECK(it != requests_.end());
  return *it->second;
}

Status EngineCore::validate(const Request& request) const {
  if (request.work.pools() != parts_.runner->pools()) {
    return invalid_argument(request.work.pools() ? "This model generates text: it makes no vectors."
                                                 : "This model makes vectors: it generates no text.")
        .with_param("model");
  }
  if (poison_ != nullptr && poison_->refuses(request))
    return invalid_argument(
               "The engine failed while it served this request; for a while it is not tried again.")
        .with_reason("poison_request");
  if (request.weight < 1) return invalid_argument("A weight is at least 1.").with_param("weight");
  const SamplingParams& sampling = request.sampling;
  if (request.work.pools() &&
      (sampling.max_tokens != 0 || sampling.width() != 1 || sampling.use_beam_search || request.constraint))
    return invalid_argument("A request for a vector cannot ask for tokens, too.").with_param("max_tokens");
  PAGODA_RETURN_IF_ERROR(check_decoding(sampling, config_.vocab_size));
  if (request.constraint != nullptr && config_.vocab_size <= 0)
    return unimplemented("A constrained answer needs a vocabulary of known size.");
  if (config_.vocab_size > 0) {
    for (const TokenId token : request.prompt_token_ids) {
      if (token < 0 || token >= config_.vocab_size) {
        return invalid_argument(concat("Token id ", token, " is out of the vocabulary, which has ",
                                       config_.vocab_size, " entries."))
            .with_param("prompt");
      }
    }
  }
  return parts_.scheduler->validate(request);
}

Status EngineCore::submit(Request request, std::shared_ptr<OutputSink> sink) {
  if (!status_.ok()) return status_;
  PAGODA_RETURN_IF_ERROR(validate(request));
  if (requests_.contains(request.id))
    return invalid_argument("A request with this id is already being served.");
  if (observer_ != nullptr) observer_->on_submit(request);
  start(make_state(std::move(request), std::move(sink)));
  return ok_status();
}

std::unique_ptr<EngineCore::RequestState> EngineCore::make_state(Request request,
                                                                 std::shared_ptr<OutputSink> sink) {
  auto state = std::make_unique<RequestState>();
  SequenceGroup& group = state->group;
  if (poison_ != nullptr) state->digest = digest_of(request);
  group.request = std::move(request);
  state->times.arrival = group.request.arrival_time != 0 ? group.request.arrival_time : clock_.now();
  state->sink = std::move(sink);
  group.seed =
      group.sampling().seed ? *group.sampling().seed : random_bits(config_.seed, 0, ++num_drawn_seeds_);
  group.rotation = config_.rotation.rotation_of(max_tokens_of(group.request, config_.max_model_len));
  if (group.wants_prompt_logprobs()) group.prompt_logprobs.emplace_back();  // the first token has none
  auto sequence = std::make_unique<Sequence>();
  sequence->id = ids_.next();
  sequence->tokens = group.request.prompt_token_ids;
  sequence->num_prompt_tokens = sequence->num_tokens();
  group.sequences.push_back(std::move(sequence));
  state->strategy = make_strategy(group.request, config_.max_model_len);
  state->strategy->start(group);
  if (group.request.constraint != nullptr)
    state->constraints =
        std::make_unique<ConstraintSet>(*group.request.constraint, group.sequences.front()->id);
  return state;
}

void EngineCore::start(std::unique_ptr<RequestState> state) {
  SequenceGroup& group = state->group;
  ++num_added_;
  parts_.scheduler->add(group);
  num_constrained_ += state->constraints != nullptr ? 1 : 0;
  if (group.request.deadline != 0) deadlines_.emplace(group.request.deadline, group.request.id);
  requests_.emplace(group.request.id, std::move(state));
}

StepResult EngineCore::run_batch(const ScheduledBatch& batch) {
  try {
    return parts_.runner->run(batch);
  } catch (const std::exception& error) {  // e.g. out of memory in a library
    log_error("engine", concat("the model runner threw: ", error.what()));
    StepResult result;
    result.status = internal_error("The engine has failed.");
    return result;
  }
}

void EngineCore::set_cache_observer(CacheObserver* observer) {
  cache_observer_ = observer;
  parts_.kv->sharing().set_cache_observer(observer);
}

void EngineCore::heartbeat() {
  if (status_.ok()) status_ = parts_.runner->heartbeat();
}

bool EngineCore::step() {
  if (!status_.ok()) return false;
  if (!deadlines_.empty()) end_late();
  if (asleep()) {
    update_gauges(0);
    return false;
  }
  plan_step();
  if (journal_ != nullptr) journal_->begin_step(num_steps_ + 1);
  ScheduledBatch& batch = parts_.scheduler->schedule();
  const std::span<const ScheduledRef> refs = parts_.scheduler->scheduled();
  const TimeNs started = clock_.now();
  if (!batch.empty()) {
    ++num_steps_;
    for (const ScheduledRef& ref : refs) {
      // A group's first step is the only one in which its prompt's sequence is new to the state's times.
      if (ref.sequence->num_output_tokens() == 0) note_started(state_of(*ref.group), started);
    }
    note_preempted(refs, started);
  }
  changes_.clear();
  touched_.clear();
  if (batch.empty()) {
    parts_.scheduler->computed();
    parts_.scheduler->update(changes_);
    update_gauges(0);
    return false;
  }
  if (journal_ != nullptr) journal_->on_batch(batch, parts_.scheduler->preempted());
  constrained_.clear();
  if (num_constrained_ > 0) fill_masks(batch, refs);
  if (poison_ != nullptr) note_in_step(refs);
  StepResult result = run_batch(batch);
  if (poison_ != nullptr) settle_step(result.status);
  const TimeNs now = clock_.now();
  if (result.status.ok() && !constrained_.empty()) judge_constrained(batch, result);
  if (observer_ != nullptr) {
    observer_->on_step({.batch = batch,
                        .preempted = parts_.scheduler->preempted(),
                        .result = result,
                        .started = started,
                        .finished = now});
  }
  if (!result.status.ok()) {
    parts_.scheduler->update(changes_);
    status_ = result.status;
    return false;
  }
  CHECK(result.sequences.size() == refs.size() &&
        (result.vectors.empty() || result.vectors.size() == refs.size()));
  metrics_.on_mapping(result.mapping);
  costs_.on_step(batch, result, to_seconds(now - started));
  budget_.on_step(batch, to_seconds(now - started) - result.swap_seconds);
  parts_.scheduler->set_preemption_costs(costs_.costs());
  parts_.scheduler->computed();
  for (std::size_t i = 0; i < refs.size();) {  // group by group: a group's entries stand together
    const std::size_t first = i;
    SequenceGroup& group = *refs[i].group;
    RequestState& state = state_of(group);
    sampled_.clear();
    for (; i < refs.size() && refs[i].group == &group; ++i) {
      if (!group.prompt_logprobs_complete())
        collect_prompt_logprobs(group, *refs[i].sequence, result.sequences[i]);
      if (batch.sequences[i].sample)
        sampled_.push_back(sampled(batch.sequences[i], *refs[i].sequence, result.sequences[i],
                                   result.vectors.empty() ? nullptr : &result.vectors[i]));
      else if (!result.vectors.empty())
        refs[i].sequence->pooled = std::move(result.vectors[i]);
    }
    if (sampled_.empty()) continue;
    if (!state.prefix_name.empty()) state.prefix_status = pin(group, state.prefix_name);
    const std::size_t begin = changes_.size();
    if (!end_at_dead_end(group)) state.strategy->advance(group, sampled_, ids_, changes_);
    if (state.constraints != nullptr) state.constraints->follow(std::span(changes_).subspan(begin));
    for (std::size_t at = first; at < i; ++at)
      if (batch.sequences[at].num_draft_tokens > 0)
        note_drafts(state, batch.sequences[at], *refs[at].sequence, begin);
    touched_.push_back({&state, begin, changes_.size()});
  }
  const std::int32_t num_batched_tokens = batch.num_tokens;
  count_step(batch);
  if (journal_ != nullptr) journal_->on_forks(changes_);
  if (live_ != nullptr)
    live_->on_step(num_steps_, batch, parts_.scheduler->preempted().size(), changes_, started, now);
  parts_.scheduler->update(changes_);
  for (const Part& part : touched_) {
    publish(*part.state, std::span(changes_).subspan(part.begin, part.end - part.begin), now);
  }
  update_gauges(num_batched_tokens);
  if (live_ != nullptr)
    live_->on_counts(parts_.scheduler->counts(), parts_.kv->num_blocks() - parts_.kv->num_free_blocks());
  return true;
}

void EngineCore::collect_prompt_logprobs(SequenceGroup& group, const Sequence& sequence,
                                         SequenceResult& result) {
  // Entries come in order, chunk by chunk. After a preemption the first chunks come again: only what
  // extends the list is taken.
  if (result.prompt_logprobs.empty()) return;
  const std::size_t prompt = group.request.prompt_token_ids.size();
  // computed() has run: the chunk ended at num_computed_tokens, and covers tokens up to the one after it.
  const std::size_t end = std::min(prompt, static_cast<std::size_t>(sequence.num_computed_tokens) + 1);
  const std::size_t first = end - result.prompt_logprobs.size();
  for (std::size_t i = 0; i < result.prompt_logprobs.size(); ++i) {
    if (first + i == group.prompt_logprobs.size())
      group.prompt_logprobs.emplace_back(std::move(result.prompt_logprobs[i]));
  }
}

void EngineCore::note_started(RequestState& state, TimeNs now) {
  if (state.times.first_scheduled != 0) return;
  state.times.first_scheduled = now;
  ++num_started_;
}

void EngineCore::note_preempted(std::span<const ScheduledRef> refs, TimeNs now) {
  for (const SequenceGroup* group : parts_.scheduler->preempted()) {
    RequestState& state = state_of(*group);
    if (state.times.first_scheduled == 0) continue;  // let in and put back by one schedule(): it still waits
    num_set_aside_ += state.preempted_at == 0 ? 1 : 0;
    state.preempted_at = now;
  }
  if (num_set_aside_ == 0) return;
  for (const ScheduledRef& ref : refs) {
    RequestState& state = state_of(*ref.group);
    if (state.preempted_at == 0) continue;
    state.preempted_for += now - state.preempted_at;
    state.preempted_at = 0;
    --num_set_aside_;
  }
}

void EngineCore::publish(RequestState& state, std::span<Change> changes, TimeNs now) {
  SequenceGroup& group = state.group;
  std::int64_t num_new = 0;
  for (const Change& change : changes) num_new += change.verb == Verb::append ? 1 : 0;
  if (num_new > 0) {
    state.num_output_tokens += num_new;
    metrics_.on_tokens(num_new);
    RequestTimes& times = state.times;
    (times.first_token == 0 ? times.preempted_prefill : times.preempted_decode) +=
        std::exchange(state.preempted_for, 0);
    if (state.times.first_token == 0) {
      state.times.first_token = now;
      const auto num_prompt_tokens = static_cast<std::int64_t>(group.request.prompt_token_ids.size());
      const std::int32_t num_cached_tokens = std::max(0, group.num_cached_tokens);
      metrics_.on_first_token(state.times, num_prompt_tokens, num_cached_tokens);
      means_.on_begun(static_cast<double>(num_prompt_tokens), num_cached_tokens);
    } else {
      metrics_.on_next_token(now - state.times.last_token);
    }
    state.times.last_token = now;
  }
  std::vector<SequenceDelta> deltas;
  state.strategy->report(group, changes, deltas);
  // A token of each sequence at a time, however many the step has brought.
  RequestOutput output;
  for (SequenceDelta& delta : deltas) {
    const bool again = std::ranges::any_of(
        output.deltas, [&](const SequenceDelta& other) { return other.index == delta.index; });
    if (again) send(state, std::exchange(output, {}));
    output.deltas.push_back(std::move(delta));
  }
  if (group.finished())
    send_last(state, std::move(output), now);
  else if (!output.deltas.empty())
    send(state, std::move(output));
}

void EngineCore::send(RequestState& state, RequestOutput output) {
  SequenceGroup& group = state.group;
  output.id = group.request.id;
  output.num_cached_tokens = std::max(0, group.num_cached_tokens);
  output.times = state.times;
  if (!state.told_prompt_logprobs) output.prompt_logprobs = std::move(group.prompt_logprobs);
  // complete() goes by the list's size: keep that.
  if (!state.told_prompt_logprobs) group.prompt_logprobs.resize(output.prompt_logprobs.size());
  state.told_prompt_logprobs = true;
  deliver(state.sink, std::move(output));
}

void EngineCore::send_last(RequestState& state, RequestOutput output, TimeNs now) {
  SequenceGroup& group = state.group;
  CHECK(group.finished());
  output.id = group.request.id;
  output.num_cached_tokens = std::max(0, group.num_cached_tokens);
  // A vector comes with the prompt's last token, and is all of the answer.
  if (group.request.work.pools()) state.times.first_token = state.times.last_token = now;
  output.times = state.times;
  if (!state.told_prompt_logprobs && group.prompt_logprobs_complete())
    output.prompt_logprobs = std::move(group.prompt_logprobs);
  output.finished = true;
  const bool is_prefix = !state.prefix_name.empty();
  if (is_prefix && output.error.ok()) output.error = std::move(state.prefix_status);
  std::int64_t longest = 0;
  FinishReason reason = FinishReason::abort;
  bool at_dead_end = false;
  for (const auto& sequence : group.sequences) {
    longest = std::max<std::int64_t>(longest, sequence->num_output_tokens());
    if (sequence->finish_reason && *sequence->finish_reason != FinishReason::abort)
      reason = *sequence->finish_reason;
    at_dead_end |= sequence->finish_reason == FinishReason::error;
  }
  if (at_dead_end && output.error.ok()) output.error = kDeadEnd;
  if (!output.error.ok()) reason = FinishReason::error;
  if (state.times.first_scheduled == 0) ++num_started_;  // it leaves the queue this way
  ++num_finished_;
  num_set_aside_ -= state.preempted_at != 0 ? 1 : 0;
  num_constrained_ -= state.constraints != nullptr ? 1 : 0;
  if (group.request.deadline != 0) deadlines_.erase({group.request.deadline, output.id});
  if (!is_prefix && (reason == FinishReason::stop || reason == FinishReason::length))
    means_.on_ended(static_cast<double>(longest));
  if (!is_prefix)
    metrics_.on_finished(state.times, now, group.request, longest, state.num_output_tokens, reason);
  if (live_ != nullptr) tell_ended(state, reason, now);
  std::shared_ptr<OutputSink> sink = std::move(state.sink);
  requests_.erase(output.id);  // `state` is gone; the request's memory with it
  deliver(std::move(sink), std::move(output));
}

void EngineCore::deliver(std::shared_ptr<OutputSink> sink, RequestOutput output) {
  if (parts_.scheduler->answers_together()) {
    held_.push_back({std::move(sink), std::move(output)});
  } else {
    sink->on_output(std::move(output));
  }
}

void EngineCore::flush_held() {
  for (Held& held : std::exchange(held_, {})) held.sink->on_output(std::move(held.output));
}

void EngineCore::update_gauges(std::int32_t num_batched_tokens) {
  const SchedulerCounts counts = parts_.scheduler->counts();
  if (!held_.empty() && counts.running_groups == 0) flush_held();
  if (requests_.empty()) {  // at rest
    const KvUsage usage = parts_.kv->inspection().usage();
    metrics_.on_usage(usage);
    if (observer_ != nullptr) observer_->on_usage(usage);
  }
  metrics_.on_step(counts, *parts_.kv, num_batched_tokens);
}

// The account of the step that has run, before its changes: what was allocated for it is in use.
void EngineCore::count_step(const ScheduledBatch& batch) {
  const KvUsage usage = parts_.kv->inspection().usage();
  metrics_.on_usage(usage);
  if (observer_ != nullptr) observer_->on_usage(usage);
  metrics_.on_copies(static_cast<std::int64_t>(batch.block_copies.size()));
  ++totals_.steps;
  totals_.usage += usage;
  totals_.blocks_copied += static_cast<std::int64_t>(batch.block_copies.size());
  totals_.batched_tokens += batch.num_tokens;
  totals_.running_requests += parts_.scheduler->counts().running_groups;
}

void EngineCore::check_invariants() const {
  parts_.scheduler->check_invariants();
  const SchedulerCounts counts = parts_.scheduler->counts();
  CHECK(counts.waiting_groups + counts.running_groups + counts.swapped_groups == num_requests());
  if (requests_.empty()) {
    CHECK(held_.empty());
    CHECK(parts_.kv->num_free_blocks() + parts_.kv->sharing().num_pinned_blocks() == parts_.kv->num_blocks());
    CHECK(parts_.kv->swap().num_free_swap_blocks() == parts_.kv->swap().num_swap_blocks());
  }
}

}  // namespace pagoda
