#pragma once
// GET /debug/kv and GET /debug/requests/{id}: a snapshot of the engine as JSON. The id is the one that the
// client knows ("cmpl-…") or the engine's number in /debug/kv.
// Threads: any.
#include <span>

#include "server/routes.h"

namespace pagoda {

std::span<const Route> debug_routes();

}  // namespace pagoda
