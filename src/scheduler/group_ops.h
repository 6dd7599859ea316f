#pragma once
// Operations on the sequences of a group that all schedulers share: the three changes, applied to the plain
// data and the KV manager, and checks that depend on the request alone.
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "kv_cache/kv_manager.h"
#include "request/changes.h"
#include "scheduler/scheduler.h"

namespace pagoda {

// Applies one change to the sequences and to `kv`.
void apply_change(Change& change, KvManager& kv);

// Releases the K/V of `sequence`, if any, and cancels a fetch of its K/V. Its tokens stay, so it can be
// recomputed.
void release_kv(Sequence& sequence, KvManager& kv);

void finish_sequence(Sequence& sequence, FinishReason reason, KvManager& kv);

// True while the group has only the prompt's sequence, or once all of its beams have caught up and may
// sample.
bool lockstep_ready(const SequenceGroup& group);

// True if the group has several sequences and some of them have no K/V: they were preempted and resume one by
// one.
bool has_parked(const SequenceGroup& group);

// Number of distinct adapters used by the groups.
std::int32_t num_adapters(std::span<SequenceGroup* const> groups);
// True if running the group keeps the running groups within the limit on adapters.
bool may_bring_adapter(const SequenceGroup& group, std::span<SequenceGroup* const> running,
                       const SchedulerConfig& config);

// The reason shown for a group that waits because of the adapter limit. `start`: for example "It waits".
std::string adapters_taken(std::string_view start, const SchedulerConfig& config);

// Name of the parameter that determines how many sequences a request runs at once.
const char* width_name(const SamplingParams& sampling);

// invalid_argument, naming the limit: the prompt leaves no room for an answer, or `width` sequences are too
// many.
Status check_lengths(const Request& request, std::int32_t width, const SchedulerConfig& config);

// Maximum number of tokens that a sequence of this request can reach.
std::int32_t max_tokens_of(const Request& request, std::int32_t max_model_len);

// Describes one sequence's part in the step: `count` tokens from num_computed_tokens on and, if these are all
// that are missing, num_draft_tokens of its drafts.
ScheduledSequence describe(const SequenceGroup& group, Sequence& sequence, std::int32_t count,
                           const KvTables& tables, std::int32_t num_draft_tokens = 0);

// Number of leading tokens that two sequences have in common.
std::int32_t common_prefix(const Sequence& a, const Sequence& b);

}  // namespace pagoda
