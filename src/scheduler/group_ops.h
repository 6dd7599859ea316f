#pragma once
// Operations that every scheduler shares on the sequences of a group: the three verbs on the plain data and
// on the KV manager, and the checks that depend on the request alone.
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "kv_cache/kv_manager.h"
#include "request/changes.h"
#include "scheduler/scheduler.h"

namespace pagoda {

// Carries out one change; `kv` follows.
void apply_change(Change& change, KvManager& kv);

// Gives back the K/V of `sequence`, if it has any, and what is on its way to it. Its tokens stay: it can be
// computed again.
void release_kv(Sequence& sequence, KvManager& kv);

void finish_sequence(Sequence& sequence, FinishReason reason, KvManager& kv);

// The prompt's one sequence may sample on its own; beams wait until all of them have caught up.
bool lockstep_ready(const SequenceGroup& group);

// Some of its several sequences have no K/V: they were preempted, and come back one after the other.
bool has_parked(const SequenceGroup& group);

// Different adapters of the groups.
std::int32_t num_adapters(std::span<SequenceGroup* const> groups);
// Whether the group may run beside those that do, as far as adapters are limited.
bool may_bring_adapter(const SequenceGroup& group, std::span<SequenceGroup* const> running,
                       const SchedulerConfig& config);

// Why a group that may not bring its adapter waits. `start`: "It waits".
std::string adapters_taken(std::string_view start, const SchedulerConfig& config);

// The parameter that says how many sequences a request runs at once.
const char* width_name(const SamplingParams& sampling);

// invalid_argument, naming the limit: the prompt leaves no room for an answer, or `width` sequences are too
// many.
Status check_lengths(const Request& request, std::int32_t width, const SchedulerConfig& config);

// Tokens a sequence of this request can reach.
std::int32_t max_tokens_of(const Request& request, std::int32_t max_model_len);

// The record of one sequence's part in the step: `count` tokens from num_computed_tokens on, and, where these
// are all it misses, so many of its drafts.
ScheduledSequence describe(const SequenceGroup& group, Sequence& sequence, std::int32_t count,
                           const KvTables& tables, std::int32_t num_draft_tokens = 0);

// How many leading tokens two sequences have in common.
std::int32_t common_prefix(const Sequence& a, const Sequence& b);

}  // namespace pagoda
