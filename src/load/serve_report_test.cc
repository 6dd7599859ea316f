// Goal: the figures follow from the outcomes as vLLM's benchmark computes them, under its names.
#include "load/serve_report.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <cmath>
#include <limits>

namespace pagoda {
namespace {

RequestOutcome outcome(double start, double ttft, double e2e, std::int64_t output, std::vector<float> itl) {
  RequestOutcome o;
  o.start_s = start;
  o.ttft_s = ttft;
  o.e2e_s = e2e;
  o.prompt_tokens = 10;
  o.output_tokens = output;
  o.itl_s = std::move(itl);
  return o;
}

LoadResult three_requests() {
  LoadResult result;
  result.duration_s = 4;
  result.outcomes.push_back(outcome(0, 0.5, 1.5, 3, {0.5f, 0.5f}));
  result.outcomes.push_back(outcome(1, 0.25, 0.25, 1, {}));
  result.outcomes.push_back(outcome(1, 0, 0, 0, {}));
  result.outcomes.back().error = "HTTP 500";
  result.outcomes[0].longest_gap_s = 0.75;
  result.outcomes[2].longest_gap_s = 9;  // a failed request's gap is not counted
  return result;
}

TEST(ServeReport, Summary) {
  const ServeSummary s = summarize(three_requests(), {.ttft_s = 0.3, .tpot_s = {}, .e2e_s = {}});
  EXPECT_EQ(s.completed, 2);
  EXPECT_EQ(s.longest_gap_ms, 750);
  EXPECT_EQ(s.failed, 1);
  EXPECT_EQ(s.total_input, 20);
  EXPECT_EQ(s.total_output, 4);
  EXPECT_EQ(s.request_throughput, 0.5);
  EXPECT_EQ(s.request_goodput, 0.25);
  EXPECT_EQ(s.output_throughput, 1);
  EXPECT_EQ(s.total_token_throughput, 6);
  EXPECT_EQ(s.ttft.statistics.mean, 375);
  EXPECT_EQ(s.tpot.statistics.count, 1);  // an answer of one token has none
  EXPECT_EQ(s.tpot.statistics.mean, 500);
  EXPECT_EQ(s.itl.statistics.count, 2);
  EXPECT_EQ(s.normalized.statistics.mean, (500 + 250) / 2.0);
  // Tokens at 0.5, 1.0, 1.5 and 1.25 s; both requests are under way in second 1.
  EXPECT_EQ(s.max_output_tokens_per_s, 3);
  EXPECT_EQ(s.max_concurrent_requests, 2);
  EXPECT_EQ(s.errors.at("HTTP 500"), 1);
}

TEST(ServeReport, JsonHasNullsWhereNothingIsAsked) {
  ReportOptions options;
  options.request_rate = std::numeric_limits<double>::infinity();
  options.percentiles = {25, 99.9};
  const LoadResult result = three_requests();
  auto report = boost::json::parse(report_json(summarize(result, {}), result, options)).as_object();
  EXPECT_TRUE(report.at("request_goodput").is_null());
  EXPECT_TRUE(report.at("max_concurrency").is_null());
  EXPECT_EQ(report.at("request_rate").as_string(), "inf");
  EXPECT_EQ(report.at("p99.9_ttft_ms").as_double(), report.at("p99.9_ttft_ms").as_double());
  EXPECT_EQ(report.at("p25_ttft_ms").as_double(), 312.5);
  EXPECT_FALSE(report.contains("itls"));
  options.detailed = true;
  options.max_concurrency = 7;
  report = boost::json::parse(report_json(summarize(result, {}), result, options)).as_object();
  EXPECT_EQ(report.at("itls").as_array().size(), 3u);
  EXPECT_EQ(report.at("errors").as_array().at(2).as_string(), "HTTP 500");
  EXPECT_EQ(report.at("max_concurrency").as_int64(), 7);
}

TEST(ServeReport, TableShowsWhatIsAsked) {
  ReportOptions options;
  options.request_rate = 2;
  options.metrics = {"e2el"};
  options.percentiles = {50, 99.5};
  const std::string table = report_table(summarize(three_requests(), {}), options);
  EXPECT_NE(table.find("Request rate configured (RPS):           2.00      \n"), std::string::npos);
  EXPECT_NE(table.find("----------------End-to-end Latency----------------\n"), std::string::npos);
  EXPECT_NE(table.find("P99.5 E2EL (ms):"), std::string::npos);
  EXPECT_EQ(table.find("TTFT"), std::string::npos);
  EXPECT_EQ(table.find("goodput"), std::string::npos);
}

TEST(ServeReport, NothingSucceeded) {
  LoadResult result;
  result.outcomes.resize(2);
  for (RequestOutcome& o : result.outcomes) o.error = "x";
  const ServeSummary s = summarize(result, {});
  EXPECT_EQ(s.failed, 2);
  EXPECT_TRUE(std::isfinite(s.output_throughput));
  EXPECT_NO_THROW(boost::json::parse(report_json(s, result, {})));
}

TEST(Goodput, IsParsed) {
  const auto limits = parse_goodput({"ttft:200", "e2el:1500.5"});
  ASSERT_TRUE(limits);
  EXPECT_EQ(limits->ttft_s, 0.2);
  EXPECT_EQ(limits->e2e_s, 1.5005);
  EXPECT_FALSE(limits->tpot_s);
  for (const char* bad : {"", "ttft", "ttft:", "speed:3", "ttft:-1", "ttft:1x", "ttft:nan"})
    EXPECT_FALSE(parse_goodput({bad})) << bad;
}

}  // namespace
}  // namespace pagoda
