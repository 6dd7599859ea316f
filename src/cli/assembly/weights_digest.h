#pragma once
// weights_digest(): a hash of the weights, independent of the model's path: of every tensor's name, type,
// shape and bytes. Reading a model takes seconds, so the digest is cached in the cache directory under the
// identity of the model's files, until these change. Threads: one caller, which lends its pool.
#include <string>

#include "base/status.h"
#include "base/thread_pool.h"
#include "kv_store/kv_key.h"
#include "loader/model_source.h"

namespace pagoda {

// Errors: a tensor's file is damaged, or was changed during the read.
Result<KvDigest> weights_digest(const ModelSource& source, ThreadPool& pool);

// The same with a cache in `folder`. If the folder cannot be used, the digest is computed every time.
Result<KvDigest> cached_weights_digest(const ModelSource& source, const std::string& folder,
                                       ThreadPool& pool);

// Hashes a sample, which takes milliseconds: names, types and shapes of all tensors, and one row of at most
// 256 of them. It distinguishes models, but may miss changes to a few rows.
Result<KvDigest> weights_sample(const ModelSource& source);

}  // namespace pagoda
