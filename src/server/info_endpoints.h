#pragma once
// Routes that describe the server: SGLang's info routes, llama.cpp's /slots, and /openapi.json and /docs.
#include <span>

#include "server/routes.h"

namespace pagoda {

std::span<const Route> info_routes();

}  // namespace pagoda
