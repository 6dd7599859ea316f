#pragma once
// The frames of the live view as JSON: what GET /debug/live streams, and what files of runs hold, a line
// each. A hello says what the engine is; a snapshot all that it holds; a delta what is different from the
// state before, and what has happened in between. Invariant: a snapshot with the deltas after it, applied in
// order, gives the same as the last state's snapshot (live_frames_test.cc has a reader that is checked so).
// Frames are numbered; a delta is for who has the frame before it. Units: microseconds. Not where they come
// from (engine/live_feed.h), nor who reads them (server/live_desk.h). Threads: any; they are pure functions.
#include <cstdint>
#include <string>

#include "request/engine_snapshot.h"

namespace pagoda {

// `boot`: of this run of the engine; a reader that sees another forgets everything.
std::string live_hello(const EngineSnapshot& state, const std::string& boot);
std::string live_snapshot(const EngineSnapshot& state, std::int64_t number);
std::string live_delta(const EngineSnapshot& before, const EngineSnapshot& after, std::int64_t number);
// Whether there is nothing to tell of.
bool live_unchanged(const EngineSnapshot& before, const EngineSnapshot& after);

}  // namespace pagoda
