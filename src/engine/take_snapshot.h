#pragma once
// take_snapshot: walks an engine's requests, tables and prefixes once. The events since the previous snapshot
// come from LiveFeed::take(). Threads: the engine thread, between two steps.
#include "engine/engine_config.h"
#include "engine/shared_prefixes.h"
#include "request/engine_snapshot.h"

namespace pagoda {

// `totals`: sums over the steps; those of the scheduler and the KV manager are added.
EngineSnapshot take_snapshot(const EngineConfig& config, const EngineParts& parts,
                             const RequestTable& requests, const SharedPrefixes& prefixes,
                             const EngineTotals& totals, SnapshotDetail detail);

}  // namespace pagoda
