#pragma once
// Counters, gauges and histograms, and their Prometheus text. Names are given without a prefix
// ("num_requests_running"); expose() puts a prefix ("vllm") and a colon before each. A name with its own
// prefix ("pagoda:padded_tokens") keeps it. A metric's address is stable for the registry's lifetime.
// An update is one relaxed atomic operation (a few for histograms). Threads: register before serving starts;
// update and expose from any thread.
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pagoda {

class Counter {
 public:
  void add(double amount = 1.0) { value_.fetch_add(amount, std::memory_order_relaxed); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

class Gauge {
 public:
  void set(double value) { value_.store(value, std::memory_order_relaxed); }
  void add(double amount) { value_.fetch_add(amount, std::memory_order_relaxed); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

class Histogram {
 public:
  explicit Histogram(std::vector<double> upper_bounds);  // ascending, without +Inf
  void observe(double value, std::int64_t times = 1);
  std::int64_t count() const;
  double sum() const;
  const std::vector<double>& upper_bounds() const { return upper_bounds_; }
  std::int64_t bucket(std::size_t index) const;  // not cumulative; index == size() is +Inf

 private:
  std::vector<double> upper_bounds_;
  std::deque<std::atomic<std::int64_t>> buckets_;
  std::atomic<double> sum_{0};
};

// A gauge with a single sample whose labels change: the label values describe a state.
class InfoGauge {
 public:
  // `labels` as in MetricsRegistry.
  void set(std::string labels, double value) {
    std::lock_guard lock(mutex_);
    labels_ = std::move(labels);
    value_ = value;
  }
  std::pair<std::string, double> sample() const {
    std::lock_guard lock(mutex_);
    return {labels_, value_};
  }

 private:
  mutable std::mutex mutex_;
  std::string labels_;
  double value_ = 0;
};

class MetricsRegistry {
 public:
  // `labels` is the text between the braces, already escaped: `finished_reason="stop"`; may be empty. The
  // same (name, labels) returns the same object. Counters are exposed with "_total" appended.
  Counter& counter(std::string_view name, std::string_view help, std::string_view labels = {});
  Gauge& gauge(std::string_view name, std::string_view help, std::string_view labels = {});
  InfoGauge& info_gauge(std::string_view name, std::string_view help, std::string_view labels = {});
  Histogram& histogram(std::string_view name, std::string_view help, std::vector<double> upper_bounds,
                       std::string_view labels = {});

  // A sub-registry for one of several engines: adds `labels` to every metric registered through it; this
  // registry exposes those metrics. Lives as long as this registry.
  MetricsRegistry& labelled(std::string labels);

  // Prometheus text format 0.0.4. `common_labels` (e.g. `model_name="m"`) is added to every sample. A name
  // that contains a colon, or starts with "process_" or "http_", gets no prefix.
  std::string expose(std::string_view prefix, std::string_view common_labels) const;

 private:
  struct Entry;
  struct Family;
  Entry& find_or_add(int kind, std::string_view name, std::string_view help, std::string_view labels);

  // The registry that holds this one's metrics; null if this registry holds them.
  MetricsRegistry* whole_ = nullptr;
  std::string labels_;  // the labels that this sub-registry adds
  std::deque<MetricsRegistry> parts_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<Family>> families_;  // shared_ptr: Family is incomplete here
};

}  // namespace pagoda
