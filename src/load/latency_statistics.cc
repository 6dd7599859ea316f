#include "load/latency_statistics.h"

#include <algorithm>
#include <cmath>

namespace pagoda {
namespace {

constexpr double kSmallest = 1e-6;
constexpr double kLargest = 1e6;
const double kLogWidth = std::log(1.005);
const std::size_t kNumBuckets = static_cast<std::size_t>(std::log(kLargest / kSmallest) / kLogWidth) + 3;

// Bucket 0 holds all values below kSmallest; bucket i starts at kSmallest * 1.005^(i-1).
std::size_t bucket_of(double value) {
  if (value < kSmallest) return 0;
  const double index = std::floor(std::log(value / kSmallest) / kLogWidth) + 1;
  return std::min(static_cast<std::size_t>(index), kNumBuckets - 1);
}

double bucket_middle(std::size_t bucket) {
  if (bucket == 0) return 0;
  return kSmallest * std::exp((static_cast<double>(bucket) - 0.5) * kLogWidth);
}

}  // namespace

double percentile(std::span<const double> sorted, double percent) {
  if (sorted.empty()) return 0;
  const double rank = std::clamp(percent, 0.0, 100.0) / 100 * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(rank);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (rank - static_cast<double>(below));
}

LatencyStatistics exact_statistics(std::vector<double> values) {
  LatencyStatistics result;
  result.count = static_cast<std::int64_t>(values.size());
  if (values.empty()) return result;
  std::sort(values.begin(), values.end());
  double sum = 0;
  for (const double v : values) sum += v;
  result.mean = sum / static_cast<double>(values.size());
  double squares = 0;
  for (const double v : values) squares += (v - result.mean) * (v - result.mean);
  result.standard_deviation = std::sqrt(squares / static_cast<double>(values.size()));
  result.median = result.p50 = percentile(values, 50);
  result.p90 = percentile(values, 90);
  result.p95 = percentile(values, 95);
  result.p99 = percentile(values, 99);
  result.max = values.back();
  return result;
}

LatencySketch::LatencySketch() : buckets_(kNumBuckets) {}

void LatencySketch::add(double value, std::int64_t times) {
  if (times < 1) return;
  if (!(value > 0)) value = 0;
  buckets_[bucket_of(value)] += times;
  min_ = count_ == 0 ? value : std::min(min_, value);
  max_ = std::max(max_, value);
  count_ += times;
  sum_ += value * static_cast<double>(times);
  sum_of_squares_ += value * value * static_cast<double>(times);
}

void LatencySketch::merge(const LatencySketch& other) {
  if (other.count_ == 0) return;
  for (std::size_t i = 0; i < kNumBuckets; ++i) buckets_[i] += other.buckets_[i];
  min_ = count_ == 0 ? other.min_ : std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
  count_ += other.count_;
  sum_ += other.sum_;
  sum_of_squares_ += other.sum_of_squares_;
}

double LatencySketch::percentile(double percent) const {
  if (count_ == 0) return 0;
  const double rank = std::clamp(percent, 0.0, 100.0) / 100 * static_cast<double>(count_ - 1);
  const auto below = static_cast<std::int64_t>(rank);
  // The values at ranks `below` and `below + 1`; the result is interpolated between them.
  double values[2] = {max_, max_};
  std::int64_t seen = 0;
  int found = 0;
  for (std::size_t i = 0; i < kNumBuckets && found < 2; ++i) {
    seen += buckets_[i];
    while (found < 2 && below + found < seen) values[found++] = std::clamp(bucket_middle(i), min_, max_);
  }
  return values[0] + (values[1] - values[0]) * (rank - static_cast<double>(below));
}

LatencyStatistics LatencySketch::statistics() const {
  LatencyStatistics result;
  result.count = count_;
  if (count_ == 0) return result;
  const auto n = static_cast<double>(count_);
  result.mean = sum_ / n;
  result.standard_deviation = std::sqrt(std::max(0.0, sum_of_squares_ / n - result.mean * result.mean));
  result.median = result.p50 = percentile(50);
  result.p90 = percentile(90);
  result.p95 = percentile(95);
  result.p99 = percentile(99);
  result.max = max_;
  return result;
}

}  // namespace pagoda
