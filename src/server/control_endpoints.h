#pragma once
// What routers and trainers ask a vLLM of in its development mode: POST /reset_prefix_cache, /sleep and
// /wake_up, GET /is_sleeping and /tokenizer_info. Fields come in the query, as there. Threads: any.
#include <span>

#include "server/routes.h"

namespace pagoda {

std::span<const Route> control_routes();

}  // namespace pagoda
