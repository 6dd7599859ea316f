#pragma once
// GET and POST /admin/prefixes, DELETE /admin/prefixes/{name}: what the provider keeps in the KV cache for
// all (§4.4 of the paper).
// Threads: any.
#include <span>

#include "server/routes.h"

namespace pagoda {

std::span<const Route> prefix_routes();

}  // namespace pagoda
