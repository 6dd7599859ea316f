#pragma once
// Latencies and what is said of them. LatencySketch holds any number in a fixed 60 KB; exact_statistics() is
// for as many as fit into memory. Not aware of units: what goes in comes out.
// Percentiles are numpy's default: linear between the two nearest ranks.
// Threads: none.
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace pagoda {

struct LatencyStatistics {
  std::int64_t count = 0;
  double mean = 0, median = 0, standard_deviation = 0;  // all 0 when count is 0
  double p50 = 0, p90 = 0, p95 = 0, p99 = 0, max = 0;
};

// A percentile of sorted values; 0 when there is none. percent in [0, 100].
double percentile(std::span<const double> sorted, double percent);
LatencyStatistics exact_statistics(std::vector<double> values);

// Counts in buckets that are 0.5 % wide: percentiles are right within 0.25 % of the value, from a microsecond
// to eleven days (in seconds); mean, deviation and maximum are exact.
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

// Limits that a request must keep to count as good, in seconds. Source: DistServe (OSDI'24), goodput.
struct GoodputLimits {
  std::optional<double> ttft_s, tpot_s, e2e_s;
  bool any() const { return ttft_s || tpot_s || e2e_s; }
};

// One finished request, times in seconds.
struct RequestLatency {
  double ttft_s = 0;
  double e2e_s = 0;
  std::int64_t output_tokens = 0;

  // Time per output token after the first; 0 for an answer of one token.
  double tpot_s() const {
    return output_tokens > 1 ? (e2e_s - ttft_s) / static_cast<double>(output_tokens - 1) : 0;
  }
  // The paper's: end-to-end latency divided by the output length.
  double normalized_s() const { return output_tokens > 0 ? e2e_s / static_cast<double>(output_tokens) : 0; }
  bool good(const GoodputLimits& limits) const {
    return (!limits.ttft_s || ttft_s <= *limits.ttft_s) && (!limits.tpot_s || tpot_s() <= *limits.tpot_s) &&
           (!limits.e2e_s || e2e_s <= *limits.e2e_s);
  }
};

}  // namespace pagoda
