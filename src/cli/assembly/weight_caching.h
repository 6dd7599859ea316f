#pragma once
// The cache of packed weights, as set by flags and environment: in the cache directory (default_model.h),
// with a progress bar if packing takes long, log lines, and metrics.
#include <chrono>
#include <memory>

#include "base/metrics.h"
#include "cli/flags/engine_flags.h"
#include "engine/step_observer.h"
#include "models/decoder/cached_weights.h"

namespace pagoda {

WeightCache weight_cache(const EngineFlags& flags);

// Null without a cache: --no-weight-cache, or the reference backend. `quiet`: another rank reports.
std::shared_ptr<const WeightCaching> weight_caching(const EngineFlags& flags, bool quiet = false);

// Starts to write packed weights after the first answer.
class WeightWritingObserver final : public StepObserver {
 public:
  explicit WeightWritingObserver(WeightWriting& writing) : writing_(writing) {}
  void on_ended(const EndedRequest&) override { writing_.begin(); }

 private:
  WeightWriting& writing_;
};

void count_weight_writing(WeightWriting& writing, MetricsRegistry& metrics);

// Writes the packed weights now unless already written, with a progress bar. cancelled: SIGINT, SIGTERM or
// the end of `patience` ended the write, and no file is left.
Status finish_weight_writing(WeightWriting& writing, std::chrono::seconds patience);

}  // namespace pagoda
