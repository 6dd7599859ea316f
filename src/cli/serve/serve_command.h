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

// Defaults of a server that other commands do not have: a goal for the gaps between tokens and a bound on
// waiting. `plan` answers for such servers.
void set_serving_defaults(EngineFlags& flags);

std::vector<Flag> serve_flags(ServeArgs& args);
Status run_serve(const ServeArgs& args);

}  // namespace pagoda
