#pragma once
// Loads weights through the cache on disk: mapped from the packed file of this model, layout, CPU level and
// rank. If there is no such file, weights are packed into memory and the file is written in the background
// (weight_writer.h). A disk error never fails a load.
// Invariants: a file with unexpected content is rewritten, never used in part; a source that changes while it
// is read leaves no file; what is read of the source leaves memory some MiB later.
// Threads: one caller each. Docs: docs/weight-cache.md.
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

// Weights that several loads in a process share: the first load reads or packs them, later loads find them
// while any user remains. All loads must use the same source and options. Threads: any; one load at a time.
class WeightShare {
 private:
  friend class CachedLoad;
  std::mutex mutex_;
  std::weak_ptr<const PackedFile> file_;
  std::weak_ptr<const PackedWeights> packed_;
};

struct WeightCaching {
  std::optional<WeightCache> cache;  // nullopt: packed into memory at every start
  // Messages for the user: what is being done, and why there is no file. Called on any thread.
  std::function<void(std::string_view)> say = [](std::string_view) {};
  std::function<void(std::string_view)> warn = [](std::string_view) {};
  // Called while weights are packed or a packed file is read: MiB done so far (from 0) and in total.
  std::function<void(std::string_view what, std::int64_t done, std::int64_t total)> progress =
      [](std::string_view, std::int64_t, std::int64_t) {};
  std::shared_ptr<WeightWriting> writing =
      std::make_shared<WeightWriting>();    // shared by all loads with this object
  std::shared_ptr<WeightShare> share = {};  // null: each load has its own weights
};

struct LoadedWeights {
  DecoderWeights weights;
  std::unique_ptr<WeightWriter> writer;  // null: nothing to write; destroyed before the weights
};

// `part` identifies the rank's part and how parts are cut.
Result<LoadedWeights> load_cached_weights(const WeightOrder& order, std::string_view part,
                                          const WeightCaching& caching);

}  // namespace pagoda
