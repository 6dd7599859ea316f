#pragma once
// GET /debug/live: a live view of the engine, as server-sent events (live_desk.h, page/live_frames.h).
// Threads: any.
#include <span>

#include "server/routes.h"

namespace pagoda {

std::span<const Route> live_routes();

}  // namespace pagoda
