#pragma once
// The report of `bench serve`: the table and the JSON of `vllm bench serve`, field by field, plus p50, p90,
// p99 and max of every latency, and normalized latency.
// Source: the output of vLLM's benchmark (names, order, units: milliseconds), for scripts that parse it.
// Threads: none.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "load/http_load.h"
#include "load/latency_statistics.h"

namespace pagoda {

struct ReportOptions {
  std::string date;  // "20261121-144500"
  std::string backend, label, model_id, tokenizer_id;
  std::int64_t num_prompts = 0;
  double request_rate = 0;  // may be infinite
  double burstiness = 1;
  std::string ramp_up_strategy;  // empty: none
  double ramp_up_start_rps = 0, ramp_up_end_rps = 0;
  std::optional<std::int32_t> max_concurrency;
  std::vector<std::string> metrics = {"ttft", "tpot", "itl"};  // metrics to show, of these and "e2el"
  std::vector<double> percentiles = {99};
  GoodputLimits goodput;
  bool detailed = false;
  std::vector<std::pair<std::string, std::string>> metadata;
};

// One kind of latency in milliseconds: all values in ascending order, and their summary.
struct LatencyMetric {
  std::vector<double> sorted_ms;
  LatencyStatistics statistics;
};

struct ServeSummary {
  std::int64_t completed = 0, failed = 0;
  std::int64_t total_input = 0, total_output = 0;
  double duration_s = 0, cpu_s = 0;
  double request_throughput = 0, request_goodput = 0, output_throughput = 0, total_token_throughput = 0;
  double longest_gap_ms = 0;           // between two chunks of one stream
  double max_output_tokens_per_s = 0;  // in the busiest second
  std::int64_t max_concurrent_requests = 0;
  LatencyMetric ttft, tpot, itl, e2el, normalized;
  std::map<std::string, std::int64_t> errors;  // number of requests by reason
};

ServeSummary summarize(const LoadResult& result, const GoodputLimits& goodput);

std::string report_table(const ServeSummary& summary, const ReportOptions& options);
std::string report_json(const ServeSummary& summary, const LoadResult& result, const ReportOptions& options);

// Parses "ttft:200", "tpot:50", "e2el:5000"; values in milliseconds.
Result<GoodputLimits> parse_goodput(const std::vector<std::string>& limits);

}  // namespace pagoda
