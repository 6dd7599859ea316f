#pragma once
// Weights through the cache on disk: mapped from the packed file of this model, layout, CPU level and rank;
// where there is none, they are packed into memory, and the file is written behind the answers
// (weight_writer.h). Whatever the disk does, a model that can be loaded is. Invariants: a file that does not
// hold what this program asks for is made anew, never used in part; a source that changes while it is read
// leaves no file; what is read of the source leaves memory some MiB later. Threads: one caller each. Docs:
// docs/weight-cache.md.
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "loader/weight_cache.h"
#include "models/decoder/decoder_weights.h"
#include "models/weights/weight_writer.h"

namespace pagoda {

// Weights that several loads of a process use at the same bytes: the first reads or packs them, the others
// find them as long as any is there. All load the same source in the same way. Threads: any; one loads at a
// time.
class WeightShare {
 private:
  friend class CachedLoad;
  std::mutex mutex_;
  std::weak_ptr<const PackedFile> file_;
  std::weak_ptr<const PackedWeights> packed_;
};

struct WeightCaching {
  std::optional<WeightCache> cache;  // none: packed into memory at every start
  // Lines for people: what is being done, and why there is no file. Called by any thread.
  std::function<void(std::string_view)> say = [](std::string_view) {};
  std::function<void(std::string_view)> warn = [](std::string_view) {};
  // While weights are packed, or a packed file is read: MiB so far, of so many, from 0 on.
  std::function<void(std::string_view what, std::int64_t done, std::int64_t total)> progress =
      [](std::string_view, std::int64_t, std::int64_t) {};
  std::shared_ptr<WeightWriting> writing =
      std::make_shared<WeightWriting>();    // shared by all that load by this
  std::shared_ptr<WeightShare> share = {};  // null: each load has weights of its own
};

struct LoadedWeights {
  DecoderWeights weights;
  std::unique_ptr<WeightWriter> writer;  // null: nothing is to be written; goes before the weights
};

// `part` names the rank's part and how the parts are cut.
Result<LoadedWeights> load_cached_weights(const WeightOrder& order, std::string_view part,
                                          const WeightCaching& caching);

}  // namespace pagoda
