#pragma once
// weights_digest(): what the weights' bytes hash to, wherever the model lies: of every tensor its name, type,
// shape and bytes. Reading a model takes seconds, so the digest is kept in the cache directory, under the
// identity of the model's files, until these change. Threads: one caller, which lends its pool.
#include <string>

#include "base/status.h"
#include "base/thread_pool.h"
#include "kv_store/kv_key.h"
#include "loader/model_source.h"

namespace pagoda {

// Errors: a tensor's file is damaged, or changed while it was read.
Result<KvDigest> weights_digest(const ModelSource& source, ThreadPool& pool);

// The same, looked up in `folder` first, and kept there. A folder that cannot be used costs time alone.
Result<KvDigest> cached_weights_digest(const ModelSource& source, const std::string& folder,
                                       ThreadPool& pool);

// The hash of a part of the same, which takes milliseconds: names, types and shapes of all tensors, and a row
// of each of 256 at most. It tells one model's weights from another's, but not from those with some rows
// changed.
Result<KvDigest> weights_sample(const ModelSource& source);

}  // namespace pagoda
