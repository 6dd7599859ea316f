#pragma once
// GET and POST /admin/prefixes, DELETE /admin/prefixes/{name}: prefixes that the operator keeps in the KV
// cache for all requests (PagedAttention §4.4).
// Threads: any.
#include <span>

#include "server/routes.h"

namespace pagoda {

std::span<const Route> prefix_routes();

}  // namespace pagoda
