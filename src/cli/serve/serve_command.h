#pragma once
// pagoda serve: the OpenAI-compatible server. Returns after a graceful drain.
#include "base/status.h"
#include "cli/flags/engine_flags.h"

namespace pagoda {

struct ServeArgs {
  EngineFlags engine;
};

Status run_serve(const ServeArgs& args);

}  // namespace pagoda
