#pragma once
// What routers, editors and people ask a server about itself: SGLang's info routes, llama.cpp's /slots, and
// the routes themselves as /openapi.json and /docs.
#include <span>

#include "server/routes.h"

namespace pagoda {

std::span<const Route> info_routes();

}  // namespace pagoda
