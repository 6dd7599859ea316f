#include "cli/assembly/weight_caching.h"

#include <signal.h>

#include <chrono>
#include <memory>
#include <optional>

#include "base/log.h"
#include "cli/assembly/default_model.h"
#include "cli/commands/progress_bar.h"

namespace pagoda {
namespace {

constexpr std::int64_t kCacheMiB = 1 << 20;

// A progress bar that appears only if the operation takes long.
class PatientBar {
 public:
  void update(std::string_view what, std::int64_t done, std::int64_t total) {
    if (done == 0) {
      bar_.reset();
      start_ = std::chrono::steady_clock::now();
    }
    if (!start_ || (!bar_ && std::chrono::steady_clock::now() - *start_ < std::chrono::milliseconds(500)))
      return;
    if (!bar_) bar_.emplace(std::string(what), total, "MiB");
    bar_->update(done);
    if (done < total) return;
    bar_.reset();
    start_.reset();
  }

 private:
  std::optional<std::chrono::steady_clock::time_point> start_;  // empty: not running
  std::optional<ProgressBar> bar_;
};

volatile sig_atomic_t stop_signal = 0;

// Handles SIGINT and SIGTERM during its lifetime.
class HeededSignals {
 public:
  HeededSignals() {
    stop_signal = 0;
    struct sigaction action{};
    action.sa_handler = [](int signal) { stop_signal = signal; };
    ::sigemptyset(&action.sa_mask);
    ::sigaction(SIGINT, &action, &before_[0]);
    ::sigaction(SIGTERM, &action, &before_[1]);
  }
  ~HeededSignals() {
    ::sigaction(SIGINT, &before_[0], nullptr);
    ::sigaction(SIGTERM, &before_[1], nullptr);
  }
  HeededSignals(const HeededSignals&) = delete;
  HeededSignals& operator=(const HeededSignals&) = delete;

 private:
  struct sigaction before_[2];
};

}  // namespace

WeightCache weight_cache(const EngineFlags& flags) {
  return {cache_directory() + "/weights", flags.weight_cache_bytes};
}

std::shared_ptr<const WeightCaching> weight_caching(const EngineFlags& flags, bool quiet) {
  auto caching = std::make_shared<WeightCaching>();
  if (flags.weight_cache && flags.backend != "reference") caching->cache = weight_cache(flags);
  if (flags.data_parallel_size > 1) caching->share = std::make_shared<WeightShare>();
  if (quiet) return caching;
  caching->say = [](std::string_view line) { log_info("weights", line); };
  caching->warn = [](std::string_view line) { log_warning("weights", line); };
  caching->progress = [bar = std::make_shared<PatientBar>()](std::string_view what, std::int64_t done,
                                                             std::int64_t total) {
    bar->update(what, done, total);
  };
  return caching;
}

void count_weight_writing(WeightWriting& writing, MetricsRegistry& metrics) {
  Gauge& bytes = metrics.gauge("pagoda:weight_cache_write_bytes",
                               "Bytes of packed weights that this process is to write to the weight cache.");
  Gauge& written =
      metrics.gauge("pagoda:weight_cache_written_bytes",
                    "Bytes of packed weights that this process has written to the weight cache.");
  Gauge& failures = metrics.gauge("pagoda:weight_cache_write_failures",
                                  "Number of files of the weight cache that could not be written.");
  writing.watch([&](const WeightWriting::State& state) {
    bytes.set(static_cast<double>(state.bytes));
    written.set(static_cast<double>(state.written_bytes));
    failures.set(static_cast<double>(state.failures));
  });
}

Status finish_weight_writing(WeightWriting& writing, std::chrono::seconds patience) {
  const HeededSignals signals;
  const auto begin = std::chrono::steady_clock::now();
  constexpr std::string_view kWhat = "writing packed weights";
  PatientBar bar;
  bar.update(kWhat, 0, 1);
  return writing.finish([&](const WeightWriting::State& state) {
    if (state.written_bytes >= kCacheMiB)
      bar.update(kWhat, state.written_bytes / kCacheMiB, state.bytes / kCacheMiB);
    return stop_signal != 0 || std::chrono::steady_clock::now() - begin >= patience;
  });
}

}  // namespace pagoda
