#include "models/decoder/cached_weights.h"

#include <algorithm>
#include <utility>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "kernels/backend.h"

namespace pagoda {
namespace {

std::int64_t source_bytes(const ModelSource& source) {
  std::int64_t sum = 0;
  for (const std::string& name : source.tensor_names()) sum += source.find(name)->bytes();
  return sum;
}

}  // namespace

class CachedLoad {
 public:
  CachedLoad(const WeightOrder& order, std::string_view part, const WeightCaching& caching)
      : order_(order),
        caching_(caching),
        key_(concat("layout ", PackedLinear::kLayoutVersion, " level ", cpu_level_name(order.context.level),
                    order.context.backend == Backend::cpu ? "" : " reference", " dtype ", order.dtype,
                    " part ", part, "\n", order.source.identity())) {}

  Result<LoadedWeights> load() {
    if (caching_.share == nullptr) return load_first();
    std::lock_guard lock(caching_.share->mutex_);
    if (auto file = caching_.share->file_.lock())
      return as_loaded(load_with(WeightStore::mapped(std::move(file))));
    if (auto packed = caching_.share->packed_.lock())
      return as_loaded(load_with(WeightStore::shared(std::move(packed))));
    return load_first();
  }

 private:
  static Result<LoadedWeights> as_loaded(Result<DecoderWeights> weights) {
    if (!weights) return weights.error();
    return LoadedWeights{.weights = *std::move(weights), .writer = {}};
  }

  Result<LoadedWeights> load_first() {
    const bool cached = caching_.cache && !order_.source.identity().empty();
    if (cached) {
      if (auto weights = load_mapped()) return LoadedWeights{.weights = *std::move(weights), .writer = {}};
    }
    // Report faults of the model before minutes of packing.
    if (auto checked = load_with(WeightStore::checking()); !checked) return checked.error();
    PAGODA_ASSIGN_OR_RETURN(auto weights, pack());
    LoadedWeights loaded{.weights = std::move(weights), .writer = {}};
    std::vector<WeightPiece> pieces = std::exchange(loaded.weights.pieces, {});
    if (!cached) return loaded;
    if (!order_.source.unchanged()) {
      caching_.warn(
          "packed weights are not kept on disk: the model's files were changed while they were read");
      return loaded;
    }
    loaded.writer = std::make_unique<WeightWriter>(
        caching_.writing, *caching_.cache, PackedFileHead{.key = key_, .source = order_.source.path()},
        std::move(pieces), WritingReport{.say = caching_.say, .warn = caching_.warn});
    return loaded;
  }

  Result<DecoderWeights> load_with(WeightStore store) const {
    return load_decoder_weights(order_, std::move(store));
  }

  Result<DecoderWeights> load_mapped() const {
    constexpr std::string_view kWhat = "reading packed weights";
    caching_.progress(kWhat, 0, 1);
    auto file = caching_.cache->open(key_, order_.context.pool, [&](std::int64_t done, std::int64_t total) {
      caching_.progress(kWhat, done, total);
    });
    if (!file) return file.error();
    if (caching_.share != nullptr) caching_.share->file_ = *file;
    auto weights = load_with(WeightStore::mapped(*std::move(file)));
    // The file was made by a program that needed other matrices.
    if (!weights) caching_.cache->remove(key_);
    return weights;
  }

  Result<DecoderWeights> pack() const {
    constexpr std::string_view kWhat = "packing weights";
    constexpr std::int64_t kMiB = 1 << 20;
    const std::int64_t total = std::max<std::int64_t>(1, source_bytes(order_.source) / kMiB);
    std::int64_t bytes = 0;
    caching_.progress(kWhat, 0, total);
    const auto on_read = [&](std::int64_t more) {
      bytes += more;
      if (bytes / kMiB < total) caching_.progress(kWhat, bytes / kMiB, total);
    };
    const auto shared = caching_.share == nullptr ? nullptr : std::make_shared<PackedWeights>();
    auto weights =
        load_with(shared == nullptr ? WeightStore::packed(on_read) : WeightStore::sharing(shared, on_read));
    if (shared != nullptr) caching_.share->packed_ = shared;
    if (weights) caching_.progress(kWhat, total, total);
    return weights;
  }

  const WeightOrder& order_;
  const WeightCaching& caching_;
  std::string key_;
};

Result<LoadedWeights> load_cached_weights(const WeightOrder& order, std::string_view part,
                                          const WeightCaching& caching) {
  return CachedLoad(order, part, caching).load();
}

}  // namespace pagoda
