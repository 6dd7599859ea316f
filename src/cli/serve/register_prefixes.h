#pragma once
// --prefix-file: the shared prefixes that are in the KV cache before the first request.
#include <string>

#include "api/api_context.h"
#include "base/status.h"
#include "engine/client.h"

namespace pagoda {

// Computes and pins every prefix of the file, in its order; the first that fails ends it.
Status register_prefixes(const std::string& path, const ApiContext& api, EngineClient& engine);

}  // namespace pagoda
