#include "scheduler/group_ops.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "base/strings.h"

namespace pagoda {

void release_kv(Sequence& sequence, KvManager& kv) {
  if (sequence.state == SequenceState::arriving) {
    kv.tiering().end_arrival(sequence.id);
    sequence.state = SequenceState::parked;
    return;
  }
  if (sequence.state != SequenceState::resident && sequence.state != SequenceState::swapped) return;
  kv.free(sequence.id);
  sequence.state = SequenceState::parked;
  sequence.num_computed_tokens = 0;
}

void finish_sequence(Sequence& sequence, FinishReason reason, KvManager& kv) {
  if (sequence.num_in_flight > 0 && sequence.state == SequenceState::resident)
    sequence.keeps_kv = true;
  else
    release_kv(sequence, kv);
  kv.tiering().end_arrival(sequence.id);  // a sequence may end after its arrival without having been admitted
  sequence.state = SequenceState::finished;
  sequence.finish_reason = reason;
}

void apply_change(Change& change, KvManager& kv) {
  Sequence& sequence = *change.sequence;
  switch (change.verb) {
    case Verb::fork: {
      CHECK(sequence.state == SequenceState::resident && sequence.num_in_flight == 0);
      Sequence& child = *change.child;
      const SequenceId id = child.id;
      const std::int32_t index = child.index;
      child = sequence;
      child.id = id;
      child.index = index;
      kv.sharing().fork(sequence.id, id);
      change.group->sequences.push_back(std::move(change.child));
      break;
    }
    case Verb::append:
      sequence.tokens.push_back(change.token);
      sequence.cumulative_logprob += static_cast<double>(change.logprob);
      change.cumulative_logprob = sequence.cumulative_logprob;
      if (change.group->keep_logprobs && change.logprobs)
        sequence.output_logprobs.push_back(*change.logprobs);
      break;
    case Verb::free:
      sequence.stop_token = change.stop_token;
      finish_sequence(sequence, change.reason, kv);
      if (change.discard) {
        std::erase_if(change.group->sequences, [&](const auto& entry) { return entry.get() == &sequence; });
      }
      break;
  }
}

bool lockstep_ready(const SequenceGroup& group) {
  return !group.forked || std::ranges::all_of(group.sequences, [](const auto& sequence) {
    return sequence->finished() || sequence->decodes();
  });
}

bool has_parked(const SequenceGroup& group) {
  return group.sequences.size() > 1 && std::ranges::any_of(group.sequences, [](const auto& sequence) {
           return sequence->state == SequenceState::parked;
         });
}

std::int32_t num_adapters(std::span<SequenceGroup* const> groups) {
  std::vector<AdapterId> ids;
  for (const SequenceGroup* group : groups)
    if (group->request.adapter != nullptr) ids.push_back(group->request.adapter->id);
  std::ranges::sort(ids);
  const auto repeated = std::ranges::unique(ids);
  return static_cast<std::int32_t>(repeated.begin() - ids.begin());
}

bool may_bring_adapter(const SequenceGroup& group, std::span<SequenceGroup* const> running,
                       const SchedulerConfig& config) {
  const RequestAdapter* const adapter = group.request.adapter.get();
  if (config.max_adapters == 0 || adapter == nullptr) return true;
  const auto has_it = [&](const SequenceGroup* other) {
    return other->request.adapter != nullptr && other->request.adapter->id == adapter->id;
  };
  return std::ranges::any_of(running, has_it) || num_adapters(running) < config.max_adapters;
}

std::string adapters_taken(std::string_view start, const SchedulerConfig& config) {
  return concat(start, " for its adapter: requests with ", config.max_adapters,
                " others are running, as many as --max-loras allows.");
}

const char* width_name(const SamplingParams& sampling) {
  if (sampling.use_beam_search && sampling.beam_width > 0) return "beam_width";
  return sampling.best_of > sampling.n ? "best_of" : "n";
}

Status check_lengths(const Request& request, std::int32_t width, const SchedulerConfig& config) {
  const auto prompt = static_cast<std::int64_t>(request.prompt_token_ids.size());
  const SamplingParams& sampling = request.sampling;
  if (prompt == 0) return invalid_argument("The prompt is empty.").with_param("prompt");
  if (prompt + (sampling.max_tokens > 0 ? 1 : 0) > config.max_model_len) {
    return invalid_argument(concat("This model's maximum context length is ", config.max_model_len,
                                   " tokens. However, your prompt has ", prompt,
                                   " tokens, which leaves no tokens for the completion."))
        .with_param("prompt")
        .with_reason("context_length_exceeded");
  }
  if (width > config.max_num_seqs) {
    return invalid_argument(concat(width_name(sampling), " = ", width,
                                   " sequences can never run together: max_num_seqs is ", config.max_num_seqs,
                                   "."))
        .with_param(width_name(sampling));
  }
  return ok_status();
}

std::int32_t max_tokens_of(const Request& request, std::int32_t max_model_len) {
  const auto prompt = static_cast<std::int64_t>(request.prompt_token_ids.size());
  return static_cast<std::int32_t>(
      std::min<std::int64_t>(prompt + std::max(0, request.sampling.max_tokens), max_model_len));
}

ScheduledSequence describe(const SequenceGroup& group, Sequence& sequence, std::int32_t count,
                           const KvTables& tables, std::int32_t num_draft_tokens) {
  CHECK(count >= 1 && count <= sequence.num_missing());
  ScheduledSequence out;
  out.id = sequence.id;
  out.num_computed_tokens = sequence.num_computed_tokens;
  out.all_tokens = sequence.tokens;
  if (num_draft_tokens > 0) {
    CHECK(count == sequence.num_missing() && sequence.num_candidates == 1 && !sequence.beam);
    // Append only the tokens that are new since the last step with drafts: known tokens never change.
    auto& drafted = sequence.drafted;
    drafted.resize(static_cast<std::size_t>(sequence.num_drafted_tokens));
    drafted.insert(drafted.end(), sequence.tokens.begin() + sequence.num_drafted_tokens,
                   sequence.tokens.end());
    sequence.num_drafted_tokens = sequence.num_tokens();
    drafted.insert(drafted.end(), sequence.draft.begin(), sequence.draft.begin() + num_draft_tokens);
    out.all_tokens = drafted;
    out.num_draft_tokens = num_draft_tokens;
  }
  if (sequence.num_expected > 0) {  // the token in flight is the only missing one
    CHECK(num_draft_tokens == 0 && sequence.num_computed_tokens == sequence.num_tokens() - 1);
    out.tokens = std::span(&kTokenInFlight, 1);
    out.drawn_at = sequence.place_in_flight;
  } else {
    out.tokens = out.all_tokens.subspan(static_cast<std::size_t>(sequence.num_computed_tokens),
                                        static_cast<std::size_t>(count + num_draft_tokens));
  }
  out.num_prompt_tokens = sequence.num_prompt_tokens;
  out.rotation = group.rotation;
  if (group.request.adapter != nullptr) out.adapter = group.request.adapter->id;
  out.block_table = tables.blocks;
  out.first_row = tables.first_row;
  out.more_tables = tables.more;
  out.sample = count == sequence.num_missing();
  out.spec = {.params = &group.sampling(),
              .seed = group.seed,
              .first_stream = static_cast<std::uint32_t>(sequence.index),
              .num_candidates = sequence.num_candidates,
              .beam = sequence.beam,
              .num_output_tokens = sequence.num_output_tokens()};
  const Work& work = group.request.work;
  out.work = work.kind;
  out.pooling = work.pooling;
  if (out.num_computed_tokens > 0) out.pooled = sequence.pooled;
  out.second_text = work.second_text;
  out.whole_prompt = work.whole_prompt;
  CHECK(!out.whole_prompt || (out.sample && sequence.num_computed_tokens == 0));
  if (!group.prompt_logprobs_complete() && sequence.num_computed_tokens < sequence.num_prompt_tokens - 1) {
    out.prompt_logprobs = *group.sampling().prompt_logprobs;
  }
  return out;
}

std::int32_t common_prefix(const Sequence& a, const Sequence& b) {
  const auto [end, other] = std::ranges::mismatch(a.tokens, b.tokens);
  return static_cast<std::int32_t>(end - a.tokens.begin());
}

}  // namespace pagoda
