#include "engine/step_pipeline.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/strings.h"
#include "scheduler/group_ops.h"

namespace pagoda {
namespace {

SampledSequence sampled(const ScheduledSequence& scheduled, Sequence& sequence, SequenceResult& result,
                        std::vector<float>* vector) {
  CHECK(std::cmp_equal(result.after_drafts.size(), scheduled.num_draft_tokens));
  // Nothing is taken after a dead end.
  const auto live = std::ranges::find(result.after_drafts, true, &SequenceResult::dead_end);
  result.after_drafts.erase(live, result.after_drafts.end());
  return {.sequence = &sequence,
          .result = &result,
          .draft = scheduled.all_tokens.last(static_cast<std::size_t>(scheduled.num_draft_tokens))
                       .first(result.after_drafts.size()),
          .vector = vector};
}

void collect_prompt_logprobs(SequenceGroup& group, const Sequence& sequence, SequenceResult& result) {
  // Entries come in order, chunk by chunk. After a preemption the first chunks come again, so only entries
  // that extend the list are taken.
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

// A dead end in one sequence ends the whole request, since the other sequences have the same constraint. Beam
// searches continue without the beam that is stuck.
bool ends_at_dead_end(const SequenceGroup& group, std::span<const SampledSequence> sampled) {
  return !group.lockstep && std::ranges::any_of(sampled, [](const auto& s) { return s.result->dead_end; });
}

}  // namespace

StepPipeline::StepPipeline(const EngineConfig& config, const EngineParts& parts, const Clock& clock,
                           RequestTable& requests, SharedPrefixes& prefixes, RequestEnds& ends,
                           OutputDelivery& outputs, SequenceIds& ids, const StepObservers& observers,
                           Status& runner_status)
    : config_(config),
      parts_(parts),
      clock_(clock),
      requests_(requests),
      prefixes_(prefixes),
      ends_(ends),
      outputs_(outputs),
      ids_(ids),
      observers_(observers),
      runner_status_(runner_status),
      costs_(config.preemption_costs),
      budget_(config.target_itl_ms / 1e3, config.max_num_batched_tokens),
      drafts_(config, observers) {
  parts_.scheduler->set_preemption_costs(costs_.costs());
}

void StepPipeline::heartbeat() {
  if (runner_status_.ok()) runner_status_ = parts_.runner->heartbeat();
}

bool StepPipeline::step() {
  ends_.turn_begins();
  bool ran = num_in_flight_ > 0 || begin();
  if (ran) {
    if (may_plan_ahead()) {
      oldest().next_planned = true;
      begin();
    }
    ran = retire_oldest();
  }
  ends_.turn_ends();
  return ran;
}

void StepPipeline::drain() {
  ends_.turn_begins();
  while (num_in_flight_ > 0) retire_oldest();
  ends_.turn_ends();
}

// Checks only the step in flight: its result may change each sequence by no more than one token.
bool StepPipeline::may_plan_ahead() const {
  if (!config_.async_scheduling || num_in_flight_ != 1 || parts_.runner->max_in_flight() < 2 ||
      !parts_.scheduler->plans_ahead() || config_.speculative || requests_.num_constrained() > 0)
    return false;
  const StepInFlight& step = oldest();
  return step.masked.empty() && !step.batch->empty() && step.submitted.ok() &&
         std::ranges::all_of(step.batch->sequences, [](const ScheduledSequence& sequence) {
           const SampleSpec& spec = sequence.spec;
           return sequence.work == WorkKind::generate && sequence.num_draft_tokens == 0 && !spec.beam &&
                  spec.num_candidates == 1 && spec.params->bad_words.empty();
         });
}

// Sets what schedule() depends on besides the groups: the token budget and the drafts.
void StepPipeline::plan() {
  if (!drafts_.active() && config_.target_itl_ms == 0) return;
  std::int32_t num_decodes = 0, position = 0;  // position: of the most advanced prompt
  for (const auto& [id, state] : requests_) {
    const SequenceGroup& group = state->group;
    std::int32_t decodes = 0;
    for (const auto& sequence : group.sequences) {
      if (sequence->decodes())
        ++decodes;
      else if (sequence->state == SequenceState::resident)
        position = std::max(position, sequence->num_computed_tokens);
    }
    // Parked beams resume with their leader, and all of them take the step.
    num_decodes += group.lockstep && group.forked && decodes > 0 ? group.num_live() : decodes;
  }
  if (config_.target_itl_ms > 0) parts_.scheduler->set_token_budget(budget_.tokens(num_decodes, position));
  if (drafts_.active() && num_in_flight_ == 0)
    drafts_.plan(requests_, *parts_.runner, num_decodes, has_states(parts_.kv->geometry().groups()),
                 num_retired_);
}

bool StepPipeline::begin() {
  plan();
  const bool ahead = num_in_flight_ > 0;
  const std::int64_t number = num_retired_ + num_in_flight_ + 1;
  StepInFlight& step = steps_[static_cast<std::size_t>((number - 1) % kMaxInFlight)];
  step.batch = &parts_.scheduler->schedule();
  step.refs = parts_.scheduler->scheduled();
  step.preempted = parts_.scheduler->preempted();
  step.started = clock_.now();
  step.next_planned = false;
  if (!step.batch->has_work() && (ahead || !has_tier_news())) {
    if (ahead) {
      parts_.scheduler->drop_plan();
    } else {
      parts_.scheduler->computed();
      parts_.scheduler->update({});
      outputs_.settle();
    }
    return false;
  }
  step.number = number;
  ++num_in_flight_;
  requests_.note_scheduled(step.number, step.refs, step.preempted, step.started);
  observers_.notify(&StepObserver::on_scheduled, step.number, *step.batch, step.preempted);
  fill_masks(config_.vocab_size, requests_, *parts_.runner, *step.batch, step.refs, step.masked);
  if (parts_.poison != nullptr) note_in_poison_record(step);
  step.submitted = submit(*step.batch);
  return true;
}

Status StepPipeline::submit(const ScheduledBatch& batch) {
  try {
    parts_.runner->submit(batch);
    return ok_status();
  } catch (const std::exception& error) {  // e.g. out of memory in a library
    log_error("engine", concat("the model runner threw: ", error.what()));
    return internal_error("The engine has failed.");
  }
}

StepResult StepPipeline::wait_for_runner() {
  try {
    return parts_.runner->wait();
  } catch (const std::exception& error) {
    log_error("engine", concat("the model runner threw: ", error.what()));
    StepResult result;
    result.status = internal_error("The engine has failed.");
    return result;
  }
}

StepResult StepPipeline::wait(StepInFlight& step) {
  StepResult result;
  if (step.submitted.ok())
    result = wait_for_runner();
  else
    result.status = step.submitted;
  // A lost rank or device says nothing about its requests; a failed computation may be caused by one of them.
  if (parts_.poison != nullptr && result.status.code() == StatusCode::internal)
    parts_.poison->condemn(config_.engine, step.number);
  step.started = std::max(step.started, last_finished_);
  step.finished = last_finished_ = clock_.now();
  return result;
}

// After a failure, also waits for the following step, since it may still be using memory; its result is
// ignored.
bool StepPipeline::retire_oldest() {
  StepResult result = wait(oldest());
  if (retire(oldest(), result)) {
    ended(oldest());
    return true;
  }
  ended(oldest());
  while (num_in_flight_ > 0) {
    if (oldest().submitted.ok()) (void)wait_for_runner();
    parts_.scheduler->update({});
    ended(oldest());
  }
  return false;
}

void StepPipeline::ended(const StepInFlight& step) {
  if (parts_.poison != nullptr) parts_.poison->end(config_.engine, step.number);
  --num_in_flight_;
  ++num_retired_;
  requests_.note_retired(num_retired_);
}

bool StepPipeline::retire(StepInFlight& step, StepResult& result) {
  const ScheduledBatch& batch = *step.batch;
  const std::int64_t num_masks =
      result.status.ok() ? judge_masked(*parts_.runner, batch, step.masked, result) : 0;
  const StepReport report{.batch = batch,
                          .refs = step.refs,
                          .preempted = step.preempted,
                          .result = result,
                          .started = step.started,
                          .finished = step.finished,
                          .number = step.number,
                          .num_masks = num_masks,
                          .next_planned = step.next_planned};
  observers_.notify(&StepObserver::on_step, report);
  changes_.clear();
  touched_.clear();
  if (!result.status.ok()) {
    parts_.scheduler->update(changes_);
    runner_status_ = result.status;
    return false;
  }
  CHECK(result.sequences.size() == step.refs.size() &&
        (result.vectors.empty() || result.vectors.size() == step.refs.size()));
  parts_.kv->tiering().on_news(result.tier_news);
  const double seconds = to_seconds(step.finished - step.started);
  costs_.on_step(batch, result, seconds);
  budget_.on_step(batch, seconds - result.swap_seconds);
  parts_.scheduler->set_preemption_costs(costs_.costs());
  parts_.scheduler->computed();
  apply(step, result);
  const std::int32_t num_batched_tokens = batch.num_tokens;
  const KvUsage usage = parts_.kv->inspection().usage();
  observers_.notify(&StepObserver::on_usage, usage);
  observers_.notify(&StepObserver::on_outcome,
                    StepOutcome{.report = report,
                                .changes = changes_,
                                .usage = usage,
                                .running_requests = parts_.scheduler->counts().running_groups});
  parts_.scheduler->update(changes_);
  for (const Part& part : touched_)
    outputs_.publish(*part.state, std::span(changes_).subspan(part.begin, part.end - part.begin),
                     step.finished);
  outputs_.settle(num_batched_tokens);
  return true;
}

// Fills changes_ and touched_, request by request: the batch's entries of one request are adjacent.
void StepPipeline::apply(const StepInFlight& step, StepResult& result) {
  const auto& refs = step.refs;
  for (std::size_t i = 0; i < refs.size();) {
    const std::size_t first = i;
    SequenceGroup& group = *refs[i].group;
    if (refs[i].sequence->finished()) {  // it finished before this step, which had already begun
      ++i;
      continue;
    }
    RequestState& state = requests_.of(group);
    sampled_.clear();
    for (; i < refs.size() && refs[i].group == &group; ++i) {
      if (refs[i].sequence->finished()) continue;
      const ScheduledSequence& scheduled = step.batch->sequences[i];
      std::vector<float>* const vector = result.vectors.empty() ? nullptr : &result.vectors[i];
      if (!group.prompt_logprobs_complete())
        collect_prompt_logprobs(group, *refs[i].sequence, result.sequences[i]);
      if (scheduled.sample)
        sampled_.push_back(sampled(scheduled, *refs[i].sequence, result.sequences[i], vector));
      else if (vector != nullptr)
        refs[i].sequence->pooled = std::move(*vector);
    }
    if (sampled_.empty()) continue;
    const std::size_t begin = changes_.size();
    decode(group, state);
    verify_drafts(state, step, first, i, begin);
    touched_.push_back({&state, begin, changes_.size()});
  }
}

// Turns the candidates in sampled_ into changes_.
void StepPipeline::decode(SequenceGroup& group, RequestState& state) {
  if (!state.prefix_name.empty()) state.prefix_status = prefixes_.pin(group, state.prefix_name);
  const std::size_t begin = changes_.size();
  if (ends_at_dead_end(group, sampled_)) {
    for (const auto& sequence : group.sequences) {
      if (sequence->finished()) continue;
      changes_.push_back({.verb = Verb::free, .group = &group, .sequence = sequence.get()});
      changes_.back().reason = FinishReason::error;
    }
  } else {
    state.strategy->advance(group, sampled_, ids_, changes_);
  }
  if (state.constraints != nullptr) state.constraints->follow(std::span(changes_).subspan(begin));
}

// Reports the verified drafts of entries [first, last); their tokens are appended from changes_[first_change]
// on.
void StepPipeline::verify_drafts(RequestState& state, const StepInFlight& step, std::size_t first,
                                 std::size_t last, std::size_t first_change) {
  for (std::size_t at = first; at < last; ++at) {
    const std::int32_t num_tried = step.batch->sequences[at].num_draft_tokens;
    if (num_tried == 0) continue;
    Sequence& sequence = *step.refs[at].sequence;
    const auto appended = std::ranges::count_if(
        std::span(changes_).subspan(first_change),
        [&](const Change& c) { return c.sequence == &sequence && c.verb == Verb::append; });
    const auto accepted =
        static_cast<std::int32_t>(std::max<std::ptrdiff_t>(0, appended - 1));  // 0 at a dead end
    drafts_.verified(state, sequence, num_tried, accepted);
  }
}

void StepPipeline::note_in_poison_record(const StepInFlight& step) {
  digests_.clear();
  const SequenceGroup* last = nullptr;
  for (const ScheduledRef& ref : step.refs) {
    if (ref.group != last) digests_.push_back(requests_.of(*ref.group).digest);
    last = ref.group;
  }
  parts_.poison->begin(digests_, config_.engine, step.number);
}

}  // namespace pagoda
