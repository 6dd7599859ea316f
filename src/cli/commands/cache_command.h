#pragma once
// pagoda pack: creates the packed file of a model in advance. pagoda cache: lists and clears the cache of
// packed files.
#include "base/status.h"
#include "cli/flags/engine_flags.h"

namespace pagoda {

struct PackArgs {
  EngineFlags engine;
};
struct CacheArgs {};

// resource_exhausted or invalid_argument: the file could not be created.
Status run_pack(const PackArgs& args);
int run_cache_list(const CacheArgs& args);
int run_cache_clear(const CacheArgs& args);

}  // namespace pagoda
