#pragma once
// The cache of packed weights as flags and environment have it: in the cache directory (default_model.h),
// with a progress bar where packing takes long, lines in the log, and metrics.
#include <chrono>
#include <memory>

#include "base/metrics.h"
#include "cli/flags/engine_flags.h"
#include "engine/step_observer.h"
#include "models/decoder/cached_weights.h"

namespace pagoda {

WeightCache weight_cache(const EngineFlags& flags);

// Without a cache: --no-weight-cache, or the reference backend. `quiet`: another rank talks.
std::shared_ptr<const WeightCaching> weight_caching(const EngineFlags& flags, bool quiet = false);

// Once the first answer is given, packed weights may be written.
class WeightWritingObserver final : public StepObserver {
 public:
  explicit WeightWritingObserver(WeightWriting& writing) : writing_(writing) {}
  void on_ended(const EndedRequest&) override { writing_.begin(); }

 private:
  WeightWriting& writing_;
};

void count_weight_writing(WeightWriting& writing, MetricsRegistry& metrics);

// Writes them now, where it has not been done, with a progress bar. SIGINT, SIGTERM and the end of `patience`
// end it, leaving no file: cancelled.
Status finish_weight_writing(WeightWriting& writing, std::chrono::seconds patience);

}  // namespace pagoda
