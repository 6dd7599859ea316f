#pragma once
// Routes of vLLM's development mode that routers and trainers use: POST /reset_prefix_cache, /sleep and
// /wake_up, GET /is_sleeping and /tokenizer_info. As in vLLM, fields are in the query. An addition: DELETE
// /admin/sessions/{id} erases a session's K/V from the prefix cache and its tiers. Threads: any.
#include <span>

#include "server/routes.h"

namespace pagoda {

std::span<const Route> control_routes();

}  // namespace pagoda
