#pragma once
// take_snapshot: one walk over an engine's requests, tables and prefixes. What has happened meanwhile comes
// from LiveFeed::take(). Threads: the engine thread, between two steps.
#include "engine/engine_config.h"
#include "engine/shared_prefixes.h"
#include "request/engine_snapshot.h"

namespace pagoda {

// `totals`: over the steps; the scheduler's and the KV manager's sums are added.
EngineSnapshot take_snapshot(const EngineConfig& config, const EngineParts& parts,
                             const RequestTable& requests, const SharedPrefixes& prefixes,
                             const EngineTotals& totals, SnapshotDetail detail);

}  // namespace pagoda
