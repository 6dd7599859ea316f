#include "decoding/beam_search.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "base/check.h"
#include "decoding/stop_rules.h"

namespace pagoda {
namespace {

TokenLogprobs logprobs_of(const Candidate& candidate, const SequenceResult& result) {
  return {.chosen = {candidate.token, candidate.logprob, candidate.rank}, .top = result.top};
}

bool is_stop_token(const SamplingParams& sampling, const Candidate& candidate) {
  return std::ranges::find(sampling.stop_token_ids, candidate.token) != sampling.stop_token_ids.end();
}

}  // namespace

void BeamSearchStrategy::start(SequenceGroup& group) {
  const SamplingParams& sampling = group.sampling();
  Sequence& prompt = *group.sequences.front();
  group.max_live_sequences = sampling.width();
  group.lockstep = true;
  group.keep_logprobs = true;
  prompt.beam = true;
  prompt.num_candidates = 2 * static_cast<std::uint32_t>(sampling.width());
  for (std::int32_t i = 0; i < sampling.num_beam_groups; ++i)
    beams_.push_back({.id = prompt.id, .beam_group = i});
}

double BeamSearchStrategy::score_of(const SamplingParams& sampling, double cumulative, std::int32_t length) {
  return cumulative / std::pow(std::max(1, length), static_cast<double>(sampling.length_penalty));
}

BeamSearchStrategy::Answer BeamSearchStrategy::make_answer(const SequenceGroup& group, const Sequence& parent,
                                                           const SequenceResult& result,
                                                           const Extension& extension, FinishReason reason) {
  const SamplingParams& sampling = group.sampling();
  const Candidate& candidate = *extension.candidate;
  Answer answer{.delta = {}, .score = 0, .beam_group = extension.beam_group, .order = num_answers_++};
  answer.delta.token_ids.assign(parent.tokens.begin() + parent.num_prompt_tokens, parent.tokens.end());
  answer.delta.token_ids.push_back(candidate.token);
  if (sampling.logprobs) {
    answer.delta.logprobs = parent.output_logprobs;
    answer.delta.logprobs.push_back(logprobs_of(candidate, result));
  }
  answer.delta.cumulative_logprob = extension.cumulative;
  answer.delta.finish_reason = reason;
  const auto& eos = sampling.eos_token_ids;
  // A final end of sequence is never counted, even if it is ignored (vLLM).
  const bool ends_in_eos = std::ranges::find(eos, candidate.token) != eos.end();
  const bool at_stop_token =
      reason == FinishReason::stop && !ends_in_eos && is_stop_token(sampling, candidate);
  // A token that completes a constraint is counted like any other token.
  const bool counted = !ends_in_eos && !at_stop_token;
  if (at_stop_token) answer.delta.stop_token = candidate.token;
  answer.score = score_of(sampling, extension.cumulative, parent.num_tokens() + (counted ? 1 : 0));
  return answer;
}

void BeamSearchStrategy::keep_best(std::vector<Extension>& open, std::int64_t count) {
  std::ranges::sort(open, [](const Extension& a, const Extension& b) {
    const double x = a.cumulative + a.handicap, y = b.cumulative + b.handicap;
    if (x != y) return x > y;
    return a.parent != b.parent ? a.parent < b.parent : a.candidate < b.candidate;
  });
  open.resize(static_cast<std::size_t>(std::min(std::ssize(open), count)));
}

std::vector<BeamSearchStrategy::Extension> BeamSearchStrategy::choose(const SamplingParams& sampling,
                                                                      std::vector<Extension> open) const {
  keep_best(open, sampling.width());
  return open;
}

// True if no more answers need to be searched for. `length`: length of the live beams.
bool BeamSearchStrategy::decided(const SequenceGroup& group, std::span<const Extension> live,
                                 std::int32_t length) const {
  const SamplingParams& sampling = group.sampling();
  const std::int64_t wanted = sampling.width() / sampling.num_beam_groups;
  for (std::int32_t beam_group = 0; beam_group < sampling.num_beam_groups; ++beam_group) {
    std::vector<double> scores;
    for (const Answer& answer : answers_)
      if (answer.beam_group == beam_group) scores.push_back(answer.score);
    if (std::ssize(scores) < wanted) return false;
    if (sampling.early_stopping == EarlyStopping::first) continue;
    std::ranges::nth_element(scores, scores.begin() + (wanted - 1), std::greater());
    const double worst = scores[static_cast<std::size_t>(wanted - 1)];
    // Log-probabilities only fall; a positive penalty raises scores with length, so the maximum length gives
    // a bound.
    const std::int32_t longest =
        std::min(max_model_len_,
                 static_cast<std::int32_t>(group.request.prompt_token_ids.size()) + sampling.max_tokens);
    const bool can_grow = sampling.early_stopping == EarlyStopping::never && sampling.length_penalty > 0;
    for (const Extension& beam : live) {
      if (beam.beam_group == beam_group &&
          score_of(sampling, beam.cumulative, can_grow ? longest : length) > worst)
        return false;
    }
  }
  return true;
}

void BeamSearchStrategy::fork_and_append(SequenceGroup& group, std::span<Extension> chosen,
                                         std::span<const SampledSequence> parents, SequenceIds& ids,
                                         std::vector<Change>& changes) {
  // Decides which beams continue in place and which are forked; all forks come before any append.
  std::vector<Sequence*> targets(chosen.size(), nullptr);
  std::vector<Sequence*> kept;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    Sequence* const parent = parents[chosen[i].parent].sequence;
    if (std::ranges::find(kept, parent) != kept.end()) continue;
    targets[i] = parent;
    kept.push_back(parent);
  }
  std::vector<bool> index_used(static_cast<std::size_t>(group.max_live_sequences), false);
  for (const Sequence* sequence : kept) index_used[static_cast<std::size_t>(sequence->index)] = true;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    if (targets[i] != nullptr) continue;
    const auto free_index = std::ranges::find(index_used, false);
    CHECK(free_index != index_used.end());
    *free_index = true;
    Change change{.verb = Verb::fork, .group = &group, .sequence = parents[chosen[i].parent].sequence};
    change.child = std::make_unique<Sequence>();
    change.child->id = ids.next();
    change.child->index = static_cast<std::int32_t>(free_index - index_used.begin());
    targets[i] = change.child.get();
    changes.push_back(std::move(change));
  }
  beams_.clear();
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const Extension& extension = chosen[i];
    Change change{.verb = Verb::append, .group = &group, .sequence = targets[i]};
    change.token = extension.candidate->token;
    change.logprob = extension.candidate->logprob;
    if (group.sampling().logprobs)
      change.logprobs = logprobs_of(*extension.candidate, *parents[extension.parent].result);
    changes.push_back(std::move(change));
    beams_.push_back(
        {.id = targets[i]->id, .beam_group = extension.beam_group, .handicap = extension.handicap});
  }
  for (const SampledSequence& entry : parents) {
    if (std::ranges::find(kept, entry.sequence) != kept.end()) continue;
    kept.push_back(entry.sequence);  // before the first fork, several beams share one sequence
    Change change{.verb = Verb::free, .group = &group, .sequence = entry.sequence};
    change.discard = !chosen.empty();
    if (chosen.empty() && answers_.empty()) change.reason = FinishReason::error;
    changes.push_back(std::move(change));
  }
}

void BeamSearchStrategy::advance(SequenceGroup& group, std::span<SampledSequence> sampled, SequenceIds& ids,
                                 std::vector<Change>& changes) {
  const SamplingParams& sampling = group.sampling();
  group.forked = true;
  for (const SampledSequence& entry : sampled) make_sortable(*entry.result);
  std::vector<SampledSequence> parents;  // parent sequence of each beam
  for (const Beam& beam : beams_) {
    const auto entry =
        std::ranges::find(sampled, beam.id, [](const SampledSequence& s) { return s.sequence->id; });
    CHECK(entry != sampled.end() && !entry->sequence->finished());
    parents.push_back(*entry);
  }
  const std::int32_t length = parents.front().sequence->num_tokens() + 1;
  const auto prompt = static_cast<std::int32_t>(group.request.prompt_token_ids.size());

  std::vector<Extension> open;
  for (std::size_t i = 0; i < parents.size(); ++i) {
    for (const Candidate& candidate : parents[i].result->candidates) {
      const Extension extension{
          .parent = i,
          .candidate = &candidate,
          .cumulative = parents[i].sequence->cumulative_logprob + static_cast<double>(candidate.logprob),
          .beam_group = beams_[i].beam_group,
          .handicap = beams_[i].handicap};
      const bool stops =
          candidate.ends || is_eos(sampling, candidate.token) || is_stop_token(sampling, candidate);
      if (stops) {
        answers_.push_back(
            make_answer(group, *parents[i].sequence, *parents[i].result, extension, FinishReason::stop));
      } else {
        open.push_back(extension);
      }
    }
  }
  // An answer that is not among the best now will never be.
  if (std::ssize(answers_) > 2 * sampling.width()) answers_ = ranked(sampling);
  std::vector<Extension> chosen = choose(sampling, std::move(open));
  const bool full = length >= max_model_len_ || length - prompt >= sampling.max_tokens;
  const bool ends = chosen.empty() || full || decided(group, chosen, length);
  if (ends && full) {
    for (const Extension& extension : chosen) {
      const SampledSequence& parent = parents[extension.parent];
      answers_.push_back(
          make_answer(group, *parent.sequence, *parent.result, extension, FinishReason::length));
    }
  }
  // The end uses the same three verbs: the last tokens are appended, then every beam is freed.
  fork_and_append(group, chosen, parents, ids, changes);
  if (!ends) return;
  // No answers: all beams have reached a dead end of their constraint, and fork_and_append() has freed them.
  const FinishReason reason =
      answers_.empty() ? FinishReason::error : *ranked(sampling).front().delta.finish_reason;
  std::vector<Sequence*> live;
  for (const Change& change : changes)
    if (change.group == &group && change.verb == Verb::append) live.push_back(change.sequence);
  for (Sequence* sequence : live) {
    Change change{.verb = Verb::free, .group = &group, .sequence = sequence};
    change.reason = reason;
    changes.push_back(std::move(change));
  }
}

// The best answers of each beam group, sorted by score over all groups.
std::vector<BeamSearchStrategy::Answer> BeamSearchStrategy::ranked(const SamplingParams& sampling) const {
  std::vector<Answer> all = answers_;
  std::ranges::sort(all, [](const Answer& a, const Answer& b) {
    return a.score != b.score ? a.score > b.score : a.order < b.order;
  });
  const std::int32_t share = sampling.width() / sampling.num_beam_groups;
  std::vector<std::int32_t> taken(static_cast<std::size_t>(sampling.num_beam_groups), 0);
  std::erase_if(all, [&](const Answer& answer) {
    return ++taken[static_cast<std::size_t>(answer.beam_group)] > share;
  });
  return all;
}

// The best complete answer or the best live beam, whichever has the higher score.
SequenceDelta BeamSearchStrategy::best_so_far(const SequenceGroup& group) const {
  const SamplingParams& sampling = group.sampling();
  SequenceDelta best;
  double best_score = -std::numeric_limits<double>::infinity();
  for (const Answer& answer : answers_) {
    if (answer.score <= best_score) continue;
    best_score = answer.score;
    best.token_ids = answer.delta.token_ids;
    best.cumulative_logprob = answer.delta.cumulative_logprob;
  }
  for (const auto& sequence : group.sequences) {
    const double score = score_of(sampling, sequence->cumulative_logprob, sequence->num_tokens());
    if (sequence->finished() || score <= best_score) continue;
    best_score = score;
    best.token_ids.assign(sequence->tokens.begin() + sequence->num_prompt_tokens, sequence->tokens.end());
    best.cumulative_logprob = sequence->cumulative_logprob;
  }
  best.index = SequenceDelta::kBestSoFar;
  return best;
}

void BeamSearchStrategy::report(const SequenceGroup& group, std::span<Change> changes,
                                std::vector<SequenceDelta>& out) {
  if (!group.finished()) {
    if (group.sampling().best_so_far && !changes.empty()) out.push_back(best_so_far(group));
    return;
  }
  std::vector<Answer> best = ranked(group.sampling());
  best.resize(std::min(best.size(), static_cast<std::size_t>(group.sampling().n)));
  for (Answer& answer : best) {
    answer.delta.index = static_cast<std::int32_t>(out.size());
    out.push_back(std::move(answer.delta));
  }
}

}  // namespace pagoda
