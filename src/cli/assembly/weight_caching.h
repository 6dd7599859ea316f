#pragma once
// The cache of packed weights as flags and environment have it: in the cache directory (default_model.h),
// with a progress bar where making a file takes long.
#include <memory>

#include "cli/flags/engine_flags.h"
#include "models/cached_weights.h"

namespace pagoda {

WeightCache weight_cache(const EngineFlags& flags);

// Null: --no-weight-cache, or the reference backend. `quiet`: another rank talks.
std::shared_ptr<const WeightCaching> weight_caching(const EngineFlags& flags, bool quiet = false);

}  // namespace pagoda
