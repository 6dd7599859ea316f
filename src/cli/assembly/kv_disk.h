#pragma once
// open_kv_disk(): the folder of --kv-disk as a tier of the KV cache for this model and these flags, shared by
// all engines of the process.
#include <memory>

#include "base/metrics.h"
#include "base/status.h"
#include "cli/assembly/loaded_runner.h"
#include "cli/flags/engine_flags.h"
#include "loader/model_source.h"
#include "request/kv_tier.h"

namespace pagoda {

// Errors: the folder is unusable or in use by another process; the model's files cannot be read.
Result<std::shared_ptr<KvTier>> open_kv_disk(const EngineFlags& flags, const ModelSource& source,
                                             const LoadedRunner& runner, MetricsRegistry& metrics);

}  // namespace pagoda
