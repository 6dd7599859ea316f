#pragma once
// Routes of vLLM's development mode that routers and trainers use: POST /reset_prefix_cache, /sleep and
// /wake_up, GET /is_sleeping and /tokenizer_info. Fields come in the query, as there. And what it has not:
// DELETE /admin/sessions/{id}, which erases what a session has in the prefix cache and its tiers. Threads:
// any.
#include <span>

#include "server/routes.h"

namespace pagoda {

std::span<const Route> control_routes();

}  // namespace pagoda
