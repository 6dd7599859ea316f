#pragma once
// Latency statistics. LatencySketch holds any number of values in a fixed 60 KB; exact_statistics() needs all
// values in memory. Independent of units: results have the unit of the values.
// Percentiles as in numpy's default: linear between the two nearest ranks.
// Threads: none.
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace pagoda {

struct LatencyStatistics {
  std::int64_t count = 0;
  double mean = 0, median = 0, standard_deviation = 0;  // all 0 if count is 0
  double p50 = 0, p90 = 0, p95 = 0, p99 = 0, max = 0;
};

// Returns a percentile of sorted values, 0 if there are none. percent in [0, 100].
double percentile(std::span<const double> sorted, double percent);
LatencyStatistics exact_statistics(std::vector<double> values);

// Counts values in buckets that are 0.5 % wide. Percentiles are accurate to 0.25 % of the value, from a
// microsecond to eleven days (in seconds). Mean, deviation and maximum are exact.
class LatencySketch {
 public:
  LatencySketch();

  void add(double value, std::int64_t times = 1);  // negative and NaN count as 0
  void merge(const LatencySketch& other);
  double percentile(double percent) const;
  LatencyStatistics statistics() const;
  std::int64_t count() const { return count_; }

 private:
  std::vector<std::int64_t> buckets_;
  std::int64_t count_ = 0;
  double sum_ = 0, sum_of_squares_ = 0, min_ = 0, max_ = 0;
};

// Limits that a request must meet to count towards goodput, in seconds. Source: DistServe (OSDI'24), goodput.
struct GoodputLimits {
  std::optional<double> ttft_s, tpot_s, e2e_s;
  bool any() const { return ttft_s || tpot_s || e2e_s; }
};

// One finished request; times in seconds.
struct RequestLatency {
  double ttft_s = 0;
  double e2e_s = 0;
  std::int64_t output_tokens = 0;

  // Time per output token after the first; 0 for an answer of one token.
  double tpot_s() const {
    return output_tokens > 1 ? (e2e_s - ttft_s) / static_cast<double>(output_tokens - 1) : 0;
  }
  // The paper's metric: end-to-end latency divided by output length.
  double normalized_s() const { return output_tokens > 0 ? e2e_s / static_cast<double>(output_tokens) : 0; }
  bool good(const GoodputLimits& limits) const {
    return (!limits.ttft_s || ttft_s <= *limits.ttft_s) && (!limits.tpot_s || tpot_s() <= *limits.tpot_s) &&
           (!limits.e2e_s || e2e_s <= *limits.e2e_s);
  }
};

}  // namespace pagoda
