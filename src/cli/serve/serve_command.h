#pragma once
// pagoda serve: the OpenAI-compatible server. Returns after a graceful drain.
#include <vector>

#include "base/status.h"
#include "cli/flags/engine_flags.h"
#include "cli/flags/flag.h"

namespace pagoda {

struct ServeArgs {
  EngineFlags engine;
};

// Sets defaults that only servers have: a target for inter-token latency and a limit on waiting. Also used by
// `plan`, which plans for such servers.
void set_serving_defaults(EngineFlags& flags);

std::vector<Flag> serve_flags(ServeArgs& args);
Status run_serve(const ServeArgs& args);

}  // namespace pagoda
