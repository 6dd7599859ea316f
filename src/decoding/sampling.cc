#include "decoding/sampling.h"

#include <algorithm>

#include "base/check.h"
#include "decoding/stop_rules.h"

namespace pagoda {

void SamplingStrategy::start(SequenceGroup& group) {
  const SamplingParams& sampling = group.sampling();
  group.max_live_sequences = std::max({1, sampling.n, sampling.best_of});
  group.forked = group.max_live_sequences == 1;
  group.keep_logprobs = group.max_live_sequences > sampling.n;
  group.sequences.front()->num_candidates = static_cast<std::uint32_t>(group.max_live_sequences);
}

bool SamplingStrategy::append(SequenceGroup& group, Sequence& sequence, const Candidate& candidate,
                              const std::vector<TokenLogprob>& top, std::int32_t length,
                              std::vector<Change>& changes) const {
  const SamplingParams& sampling = group.sampling();
  std::optional<Stop> stop;
  if (sampling.max_tokens <= 0) {  // only the prompt was requested
    stop = Stop{FinishReason::length, std::nullopt};
  } else {
    Change change{.verb = Verb::append, .group = &group, .sequence = &sequence};
    change.token = candidate.token;
    change.logprob = candidate.logprob;
    if (sampling.logprobs) {
      change.logprobs =
          TokenLogprobs{.chosen = {candidate.token, candidate.logprob, candidate.rank}, .top = top};
    }
    changes.push_back(std::move(change));
    stop = check_stop(sampling, candidate.token, length + 1,
                      length + 1 - static_cast<std::int32_t>(group.request.prompt_token_ids.size()),
                      max_model_len_);
    if (candidate.ends && (!stop || stop->reason == FinishReason::length))
      stop = Stop{FinishReason::stop, std::nullopt};
  }
  if (!stop) return true;
  Change change{.verb = Verb::free, .group = &group, .sequence = &sequence};
  change.reason = stop->reason;
  change.stop_token = stop->stop_token;
  changes.push_back(std::move(change));
  return false;
}

void SamplingStrategy::advance(SequenceGroup& group, std::span<SampledSequence> sampled, SequenceIds& ids,
                               std::vector<Change>& changes) {
  for (const SampledSequence& entry : sampled) {
    make_sortable(*entry.result);
    Sequence& parent = *entry.sequence;
    const SequenceResult& result = *entry.result;
    const std::int32_t length = parent.num_tokens();
    CHECK(result.candidates.size() == parent.num_candidates);
    CHECK(result.after_drafts.size() == entry.draft.size() && (entry.draft.empty() || group.forked));
    if (group.forked) {
      const SequenceResult* drawn = &result;
      for (std::size_t i = 0;; ++i) {
        const Candidate& candidate = drawn->candidates.front();
        const bool goes_on =
            append(group, parent, candidate, drawn->top, length + static_cast<std::int32_t>(i), changes);
        if (!goes_on || i == entry.draft.size() || candidate.token != entry.draft[i]) break;
        drawn = &result.after_drafts[i];
      }
      continue;
    }
    // All forks before any append: the children copy a parent that has only the prompt.
    group.forked = true;
    parent.num_candidates = 1;
    std::vector<Sequence*> all{&parent};
    for (std::int32_t i = 1; i < group.max_live_sequences; ++i) {
      auto child = std::make_unique<Sequence>();
      child->id = ids.next();
      child->index = i;
      all.push_back(child.get());
      Change change{.verb = Verb::fork, .group = &group, .sequence = &parent};
      change.child = std::move(child);
      changes.push_back(std::move(change));
    }
    for (std::size_t i = 0; i < all.size(); ++i)
      (void)append(group, *all[i], result.candidates[i], result.top, length, changes);
  }
}

void SamplingStrategy::report(const SequenceGroup& group, std::span<Change> changes,
                              std::vector<SequenceDelta>& out) {
  const SamplingParams& sampling = group.sampling();
  if (group.max_live_sequences > sampling.n) {
    if (!group.finished()) return;
    std::vector<const Sequence*> ranked;
    for (const auto& sequence : group.sequences) ranked.push_back(sequence.get());
    std::ranges::sort(ranked, [](const Sequence* a, const Sequence* b) {
      return a->cumulative_logprob != b->cumulative_logprob ? a->cumulative_logprob > b->cumulative_logprob
                                                            : a->index < b->index;
    });
    ranked.resize(std::min(ranked.size(), static_cast<std::size_t>(sampling.n)));
    for (const Sequence* sequence : ranked) {
      SequenceDelta delta;
      delta.index = static_cast<std::int32_t>(out.size());
      delta.token_ids.assign(sequence->tokens.begin() + sequence->num_prompt_tokens, sequence->tokens.end());
      delta.logprobs = sequence->output_logprobs;
      delta.cumulative_logprob = sequence->cumulative_logprob;
      delta.finish_reason = sequence->finish_reason;
      delta.stop_token = sequence->stop_token;
      out.push_back(std::move(delta));
    }
    return;
  }
  for (Change& change : changes) {
    if (change.verb == Verb::fork) continue;
    const Sequence& sequence = *change.sequence;
    // Every token gets its own delta: with drafts, a step brings several.
    if (out.empty() || out.back().index != sequence.index || change.verb == Verb::append) {
      out.emplace_back();
      out.back().index = sequence.index;
      out.back().cumulative_logprob = sequence.cumulative_logprob;
    }
    SequenceDelta& delta = out.back();
    if (change.verb == Verb::append) {
      delta.cumulative_logprob = change.cumulative_logprob;
      delta.token_ids.push_back(change.token);
      if (change.logprobs) delta.logprobs.push_back(std::move(*change.logprobs));
    } else {
      delta.finish_reason = change.reason;
      delta.stop_token = change.stop_token;
    }
  }
}

}  // namespace pagoda
