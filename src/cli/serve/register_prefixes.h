#pragma once
// --prefix-file: shared prefixes that are put into the KV cache before the first request.
#include <string>

#include "api/api_context.h"
#include "base/status.h"
#include "engine/client.h"

namespace pagoda {

// Computes and pins every prefix of the file in order; stops at the first failure.
Status register_prefixes(const std::string& path, const ApiContext& api, EngineClient& engine);

}  // namespace pagoda
