#pragma once
// Writes the frames of the live view as JSON, for GET /debug/live and for files of runs (one frame per line).
// A hello describes the engine, a snapshot its whole state, and a delta the changes and events since the
// previous state. Invariant: a snapshot plus the deltas after it, applied in order, equals the snapshot of
// the last state (checked by a reader in live_frames_test.cc). Frames are numbered; a delta applies to the
// frame before it. Units: microseconds. Frames come from engine/live_feed.h and go to server/live_desk.h.
// Threads: any; pure functions.
#include <cstdint>
#include <string>

#include "request/engine_snapshot.h"

namespace pagoda {

// `boot`: id of this run of the engine; a reader discards its state when the id changes.
std::string live_hello(const EngineSnapshot& state, const std::string& boot);
std::string live_snapshot(const EngineSnapshot& state, std::int64_t number);
std::string live_delta(const EngineSnapshot& before, const EngineSnapshot& after, std::int64_t number);
// True if there is nothing to report.
bool live_unchanged(const EngineSnapshot& before, const EngineSnapshot& after);

}  // namespace pagoda
