#include "models/cached_weights.h"

#include <utility>

#include "base/strings.h"
#include "kernels/backend.h"

namespace pagoda {
namespace {

std::int64_t source_bytes(const ModelSource& source) {
  std::int64_t sum = 0;
  for (const std::string& name : source.tensor_names()) sum += source.find(name)->bytes();
  return sum;
}

class CachedLoad {
 public:
  CachedLoad(const KernelContext& context, const ModelSource& source, const WeightNames& names,
             const DecoderConfig& config, const TensorShard& shard, std::string_view dtype,
             std::string_view part, const WeightCaching& caching)
      : context_(context),
        source_(source),
        names_(names),
        config_(config),
        shard_(shard),
        dtype_(dtype),
        caching_(caching),
        key_(concat("layout ", PackedLinear::kLayoutVersion, " level ", cpu_level_name(context.level),
                    context.backend == Backend::cpu ? "" : " reference", " dtype ", dtype, " part ", part,
                    "\n", source.identity())) {}

  Result<DecoderWeights> load() {
    if (source_.identity().empty()) return load_with({});
    if (auto weights = load_mapped()) return weights;
    // A fault of the model itself is no matter of the cache.
    if (auto checked = load_with(WeightStore::checking()); !checked) return checked;
    if (const Status made = make(); !made.ok()) {
      caching_.say(concat("weights are packed in memory: ", made.message()));
      return load_with({});
    }
    if (auto weights = load_mapped()) return weights;
    caching_.say("weights are packed in memory: the packed file cannot be read back");
    return load_with({});
  }

 private:
  Result<DecoderWeights> load_with(WeightStore store) const {
    return load_decoder_weights(context_, source_, names_, config_, shard_, dtype_, std::move(store));
  }

  Result<DecoderWeights> load_mapped() const {
    auto file = caching_.cache.open(key_, context_.pool);
    if (!file) return file.error();
    auto weights = load_with(WeightStore::mapped(*std::move(file)));
    // Made by a program that asked for other matrices.
    if (!weights) caching_.cache.remove(key_);
    return weights;
  }

  Status make() const {
    const std::int64_t total = source_bytes(source_);
    auto making = caching_.cache.begin({.key = key_, .source = source_.path()}, total, [&] {
      caching_.say("another process is packing this model's weights; waiting for it");
    });
    if (!making) return making.error();
    if (caching_.cache.open(key_, context_.pool)) return ok_status();  // made while we waited
    if (!source_.unchanged()) return corrupt_data("the model's files were changed since they were opened");
    std::int64_t done = 0;
    caching_.progress(0, total);
    auto weights = load_with(WeightStore::written(making->writer(), context_.pool, [&](std::int64_t bytes) {
      done += bytes;
      caching_.progress(std::min(done, total), total);
    }));
    if (!weights) return weights.error();
    if (!source_.unchanged()) return corrupt_data("the model's files were changed while they were read");
    caching_.progress(total, total);
    return caching_.cache.commit(*std::move(making));
  }

  const KernelContext& context_;
  const ModelSource& source_;
  const WeightNames& names_;
  const DecoderConfig& config_;
  const TensorShard& shard_;
  std::string_view dtype_;
  const WeightCaching& caching_;
  std::string key_;
};

}  // namespace

Result<DecoderWeights> load_cached_weights(const KernelContext& context, const ModelSource& source,
                                           const WeightNames& names, const DecoderConfig& config,
                                           const TensorShard& shard, std::string_view dtype,
                                           std::string_view part, const WeightCaching& caching) {
  return CachedLoad(context, source, names, config, shard, dtype, part, caching).load();
}

}  // namespace pagoda
