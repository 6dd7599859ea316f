#pragma once
// kv_fingerprint(): the name of everything that a bit of K/V depends on, for K/V that outlives the process or
// goes to another one: the weights' bytes, the model's configuration with what flags change of it, types, the
// instructions or the device that compute, the ranks and how they add up, the layout of a row, and the build
// of this program. The model's path is no part of it. Threads: one caller.
#include <string>

#include "base/status.h"
#include "base/thread_pool.h"
#include "cli/assembly/loaded_runner.h"
#include "cli/flags/engine_flags.h"
#include "kv_store/kv_key.h"
#include "loader/model_source.h"

namespace pagoda {

// The model's configuration as its files and flags say, whatever its path: part of every block hash.
KvDigest model_digest(const ModelSource& source, const ModelOverrides& overrides);

// Reads the weights, unless their digest is known already.
Result<KvDigest> kv_fingerprint(const EngineFlags& flags, const ModelSource& source,
                                const LoadedRunner& runner, ThreadPool& pool);

}  // namespace pagoda
