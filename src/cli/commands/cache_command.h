#pragma once
// pagoda pack: makes the packed file of a model beforehand. pagoda cache: what the cache of packed files
// holds, and how to get rid of it.
#include "base/status.h"
#include "cli/flags/engine_flags.h"

namespace pagoda {

struct PackArgs {
  EngineFlags engine;
};
struct CacheArgs {};

// resource_exhausted or invalid_argument where no file could be made.
Status run_pack(const PackArgs& args);
int run_cache_list(const CacheArgs& args);
int run_cache_clear(const CacheArgs& args);

}  // namespace pagoda
