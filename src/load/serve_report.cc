#include "load/serve_report.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>
#include <charconv>
#include <cmath>
#include <string_view>

#include "base/plain_numbers.h"
#include "base/strings.h"

namespace pagoda {
namespace {

namespace json = boost::json;

constexpr std::size_t kWidth = 50;

struct Section {
  const char* name;     // in --percentile-metrics and the JSON
  const char* letters;  // in the table
  const char* title;
  LatencyMetric ServeSummary::* metric;
};

constexpr Section kSections[] = {
    {"ttft", "TTFT", "Time to First Token", &ServeSummary::ttft},
    {"tpot", "TPOT", "Time per Output Token (excl. 1st token)", &ServeSummary::tpot},
    {"itl", "ITL", "Inter-token Latency", &ServeSummary::itl},
    {"e2el", "E2EL", "End-to-end Latency", &ServeSummary::e2el},
};

LatencyMetric make_metric(std::vector<double> milliseconds) {
  LatencyMetric metric;
  std::sort(milliseconds.begin(), milliseconds.end());
  metric.statistics = exact_statistics(milliseconds);
  metric.sorted_ms = std::move(milliseconds);
  return metric;
}

// Formats a percentile as Python does: "99", "99.9".
std::string percentile_word(double percent) {
  char buffer[32];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, percent);
  return {buffer, end};
}

std::string centered(std::string_view text, char fill) {
  const std::size_t padding = kWidth - std::min(kWidth, text.size());
  return concat(std::string(padding / 2, fill), text, std::string(padding - padding / 2, fill), "\n");
}

std::string row(std::string_view label, const std::string& value) {
  std::string line(label);
  line.resize(std::max<std::size_t>(line.size(), 40), ' ');
  std::string padded = value;
  padded.resize(std::max<std::size_t>(padded.size(), 10), ' ');
  return concat(line, " ", padded, "\n");
}
std::string row(std::string_view label, double value) { return row(label, fixed(value, 2)); }
std::string row(std::string_view label, std::int64_t value) { return row(label, std::to_string(value)); }

// Finds the tokens in the busiest second and the most concurrent requests, counted as in vLLM: by whole
// seconds since the first request, with one token at each of a request's times.
void find_peaks(const LoadResult& result, ServeSummary& summary) {
  double first = 0, last = 0;
  bool any = false;
  for (const RequestOutcome& o : result.outcomes) {
    if (!o.ok()) continue;
    first = any ? std::min(first, o.start_s) : o.start_s;
    last = any ? std::max(last, o.start_s + o.e2e_s) : o.start_s + o.e2e_s;
    any = true;
  }
  if (!any) return;
  const auto seconds = static_cast<std::size_t>(std::min(std::ceil(last - first) + 1, 1e7));
  std::vector<std::int64_t> tokens(seconds), requests(seconds);
  const auto second_of = [&](double t) {
    return std::min(static_cast<std::size_t>(std::max(0.0, t - first)), seconds - 1);
  };
  for (const RequestOutcome& o : result.outcomes) {
    if (!o.ok()) continue;
    double at = o.start_s + o.ttft_s;
    ++tokens[second_of(at)];
    for (const float gap : o.itl_s) ++tokens[second_of(at += static_cast<double>(gap))];
    const std::size_t end = second_of(o.start_s + o.e2e_s);
    for (std::size_t s = second_of(o.start_s); s <= end; ++s) ++requests[s];
  }
  summary.max_output_tokens_per_s = static_cast<double>(*std::max_element(tokens.begin(), tokens.end()));
  summary.max_concurrent_requests = *std::max_element(requests.begin(), requests.end());
}

}  // namespace

ServeSummary summarize(const LoadResult& result, const GoodputLimits& goodput) {
  ServeSummary s;
  std::vector<double> ttft, tpot, itl, e2el, normalized;
  std::int64_t good = 0;
  for (const RequestOutcome& o : result.outcomes) {
    if (!o.ok()) {
      ++s.failed;
      ++s.errors[o.error];
      continue;
    }
    ++s.completed;
    s.total_input += o.prompt_tokens;
    s.total_output += o.output_tokens;
    const RequestLatency latency{o.ttft_s, o.e2e_s, o.output_tokens};
    good += latency.good(goodput);
    ttft.push_back(o.ttft_s * 1e3);
    e2el.push_back(o.e2e_s * 1e3);
    normalized.push_back(latency.normalized_s() * 1e3);
    if (o.output_tokens > 1) tpot.push_back(latency.tpot_s() * 1e3);
    s.longest_gap_ms = std::max(s.longest_gap_ms, o.longest_gap_s * 1e3);
    for (const float gap : o.itl_s) itl.push_back(static_cast<double>(gap) * 1e3);
  }
  s.duration_s = result.duration_s;
  s.cpu_s = result.cpu_s;
  const double duration = std::max(result.duration_s, 1e-9);
  s.request_throughput = static_cast<double>(s.completed) / duration;
  s.request_goodput = static_cast<double>(good) / duration;
  s.output_throughput = static_cast<double>(s.total_output) / duration;
  s.total_token_throughput = static_cast<double>(s.total_input + s.total_output) / duration;
  find_peaks(result, s);
  s.ttft = make_metric(std::move(ttft));
  s.tpot = make_metric(std::move(tpot));
  s.itl = make_metric(std::move(itl));
  s.e2el = make_metric(std::move(e2el));
  s.normalized = make_metric(std::move(normalized));
  return s;
}

std::string report_table(const ServeSummary& s, const ReportOptions& options) {
  std::string out = centered(" Serving Benchmark Result ", '=');
  out += row("Successful requests:", s.completed);
  out += row("Failed requests:", s.failed);
  if (options.max_concurrency)
    out += row("Maximum request concurrency:", std::int64_t{*options.max_concurrency});
  if (!std::isinf(options.request_rate)) out += row("Request rate configured (RPS):", options.request_rate);
  out += row("Benchmark duration (s):", s.duration_s);
  out += row("Total input tokens:", s.total_input);
  out += row("Total generated tokens:", s.total_output);
  out += row("Request throughput (req/s):", s.request_throughput);
  if (options.goodput.any()) out += row("Request goodput (req/s):", s.request_goodput);
  out += row("Output token throughput (tok/s):", s.output_throughput);
  out += row("Peak output token throughput (tok/s):", s.max_output_tokens_per_s);
  out += row("Peak concurrent requests:", static_cast<double>(s.max_concurrent_requests));
  out += row("Total token throughput (tok/s):", s.total_token_throughput);
  for (const Section& section : kSections) {
    if (std::find(options.metrics.begin(), options.metrics.end(), section.name) == options.metrics.end())
      continue;
    const LatencyMetric& metric = s.*section.metric;
    out += centered(section.title, '-');
    out += row(concat("Mean ", section.letters, " (ms):"), metric.statistics.mean);
    out += row(concat("Median ", section.letters, " (ms):"), metric.statistics.median);
    for (const double p : options.percentiles)
      out += row(concat("P", percentile_word(p), " ", section.letters, " (ms):"),
                 percentile(metric.sorted_ms, p));
  }
  out += centered("Normalized Latency (E2EL per output token)", '-');
  out += row("Mean normalized latency (ms/tok):", s.normalized.statistics.mean);
  out += row("P99 normalized latency (ms/tok):", s.normalized.statistics.p99);
  return out + std::string(kWidth, '=') + "\n";
}

std::string report_json(const ServeSummary& s, const LoadResult& result, const ReportOptions& options) {
  json::object out = {{"date", options.date},
                      {"endpoint_type", options.backend},
                      {"backend", options.backend},
                      {"label", nullptr},
                      {"model_id", options.model_id},
                      {"tokenizer_id", options.tokenizer_id},
                      {"num_prompts", options.num_prompts}};
  if (!options.label.empty()) out["label"] = options.label;
  for (const auto& [key, value] : options.metadata) out[key] = value;
  if (std::isinf(options.request_rate))
    out["request_rate"] = "inf";
  else
    out["request_rate"] = options.request_rate;
  if (std::isinf(options.burstiness))
    out["burstiness"] = "inf";
  else
    out["burstiness"] = options.burstiness;
  if (!options.ramp_up_strategy.empty()) {
    out["ramp_up_strategy"] = options.ramp_up_strategy;
    out["ramp_up_start_rps"] = options.ramp_up_start_rps;
    out["ramp_up_end_rps"] = options.ramp_up_end_rps;
  }
  out["max_concurrency"] = nullptr;
  if (options.max_concurrency) out["max_concurrency"] = *options.max_concurrency;

  out["duration"] = s.duration_s;
  out["completed"] = s.completed;
  out["failed"] = s.failed;
  out["total_input_tokens"] = s.total_input;
  out["total_output_tokens"] = s.total_output;
  out["request_throughput"] = s.request_throughput;
  out["request_goodput"] = nullptr;
  if (options.goodput.any()) out["request_goodput"] = s.request_goodput;
  out["output_throughput"] = s.output_throughput;
  out["total_token_throughput"] = s.total_token_throughput;
  out["max_output_tokens_per_s"] = s.max_output_tokens_per_s;
  out["max_concurrent_requests"] = s.max_concurrent_requests;
  if (options.detailed) {
    json::array input_lens, output_lens, ttfts, itls, texts, errors;
    for (const RequestOutcome& o : result.outcomes) {
      input_lens.emplace_back(o.prompt_tokens);
      output_lens.emplace_back(o.ok() ? o.output_tokens : 0);
      ttfts.emplace_back(o.ttft_s);
      itls.emplace_back(json::array(o.itl_s.begin(), o.itl_s.end()));
      texts.emplace_back(o.text);
      errors.emplace_back(o.error);
    }
    out["input_lens"] = std::move(input_lens);
    out["output_lens"] = std::move(output_lens);
    out["ttfts"] = std::move(ttfts);
    out["itls"] = std::move(itls);
    out["generated_texts"] = std::move(texts);
    out["errors"] = std::move(errors);
  }
  const auto add = [&](const std::string& name, const LatencyMetric& metric) {
    const LatencyStatistics& m = metric.statistics;
    out[concat("mean_", name)] = m.mean;
    out[concat("median_", name)] = m.median;
    out[concat("std_", name)] = m.standard_deviation;
    for (const double p : options.percentiles)
      out[concat("p", percentile_word(p), "_", name)] = percentile(metric.sorted_ms, p);
    out[concat("p50_", name)] = m.p50;
    out[concat("p90_", name)] = m.p90;
    out[concat("p99_", name)] = m.p99;
    out[concat("max_", name)] = m.max;
  };
  for (const Section& section : kSections) add(concat(section.name, "_ms"), s.*section.metric);
  add("normalized_latency_ms", s.normalized);
  out["longest_gap_ms"] = s.longest_gap_ms;
  out["client_cpu_s"] = s.cpu_s;
  return plain_numbers(json::serialize(out));
}

Result<GoodputLimits> parse_goodput(const std::vector<std::string>& limits) {
  GoodputLimits goodput;
  for (const std::string& limit : limits) {
    const std::size_t colon = std::min(limit.find(':'), limit.size());
    const std::string_view name = std::string_view(limit).substr(0, colon);
    std::optional<double>* const target = name == "ttft"   ? &goodput.ttft_s
                                          : name == "tpot" ? &goodput.tpot_s
                                          : name == "e2el" ? &goodput.e2e_s
                                                           : nullptr;
    double milliseconds = 0;
    const char* const end = limit.data() + limit.size();
    const char* const begin = limit.data() + std::min(colon + 1, limit.size());
    const auto [stop, error] = std::from_chars(begin, end, milliseconds);
    if (target == nullptr || error != std::errc() || stop != end || !(milliseconds >= 0))
      return invalid_argument(
          concat("'", limit, "' is not ttft:MS, tpot:MS or e2el:MS (milliseconds, not negative)"));
    *target = milliseconds / 1e3;
  }
  return goodput;
}

}  // namespace pagoda
