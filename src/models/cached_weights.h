#pragma once
// Weights through the cache on disk: mapped from the packed file of this model, layout, CPU level and rank;
// where there is none, it is made first, piece by piece. Whatever the disk does, a model that can be loaded
// is: without a usable cache it is packed into memory, and a line says why. Invariants: a file that does not
// hold what this program asks for is made anew, never used in part; a source that changes while it is read
// leaves no file; peak memory is a matrix and what the loaded weights take. Threads: one caller. Docs:
// docs/weight-cache.md.
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "loader/weight_cache.h"
#include "models/decoder_weights.h"

namespace pagoda {

struct WeightCaching {
  WeightCache cache;
  // A line for people: what is being done, or why there is no file.
  std::function<void(std::string_view)> say = [](std::string_view) {};
  // While a file is made: bytes of the source packed so far, of so many.
  std::function<void(std::int64_t done, std::int64_t total)> progress = [](std::int64_t, std::int64_t) {};
};

// `part` names the rank's part and how the parts are cut.
Result<DecoderWeights> load_cached_weights(const KernelContext& context, const ModelSource& source,
                                           const WeightNames& names, const DecoderConfig& config,
                                           const TensorShard& shard, std::string_view dtype,
                                           std::string_view part, const WeightCaching& caching);

}  // namespace pagoda
