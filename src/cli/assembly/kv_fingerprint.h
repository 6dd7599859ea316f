#pragma once
// kv_fingerprint(): a digest of everything that determines the bits of K/V, for K/V that outlives the process
// or is sent to another one: the bytes of the weights, the model's configuration with overrides from flags,
// types, the CPU instructions or the device used, the ranks and their order of summation, the layout of a
// row, and the build of this program. Independent of the model's path. Threads: one caller.
#include <string>

#include "base/status.h"
#include "base/thread_pool.h"
#include "cli/assembly/loaded_runner.h"
#include "cli/flags/engine_flags.h"
#include "kv_store/kv_key.h"
#include "loader/model_source.h"

namespace pagoda {

// A digest of the model's configuration from its files and flags, independent of its path. Part of every
// block hash.
KvDigest model_digest(const ModelSource& source, const ModelOverrides& overrides);

// Reads the weights unless their digest is cached.
Result<KvDigest> kv_fingerprint(const EngineFlags& flags, const ModelSource& source,
                                const LoadedRunner& runner, ThreadPool& pool);

}  // namespace pagoda
