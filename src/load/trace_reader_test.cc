// Goal: every trace form is read as its header says, and whatever is wrong is refused by line and field.
#include "load/trace_reader.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <sstream>

#include "base/strings.h"
#include "load/test_data.h"

namespace pagoda {
namespace {

std::unique_ptr<Workload> open_text(const std::string& text, const TraceOptions& options = {}) {
  auto trace = read_trace(std::make_unique<std::istringstream>(text), "t", options);
  EXPECT_TRUE(trace) << trace.error().message();
  return trace ? std::move(*trace) : nullptr;
}

std::vector<WorkloadRequest> read_all(const std::string& text, const TraceOptions& options = {}) {
  std::vector<WorkloadRequest> requests;
  const auto trace = open_text(text, options);
  for (;;) {
    auto request = trace->next();
    EXPECT_TRUE(request) << request.error().message();
    if (!request || !*request) return requests;
    requests.push_back(std::move(**request));
  }
}

// The first error of a text; empty: there is none.
std::string trace_error(const std::string& text, const TraceOptions& options = {}) {
  auto trace = read_trace(std::make_unique<std::istringstream>(text), "t", options);
  if (!trace) return trace.error().message();
  for (int i = 0; i < 1000; ++i) {
    const auto request = (*trace)->next();
    if (!request) return request.error().message();
    if (!*request) return "";
  }
  return "no end";
}

std::string line(const std::string& prompt, const std::string& output, const std::string& rest = "") {
  return concat("{\"prompt_tokens\":", prompt, ",\"output_tokens\":", output, rest, "}\n");
}

TEST(JsonlTrace, ReadsItsFields) {
  const auto requests =
      read_all(line("10", "20", ",\"arrival_s\":0.5,\"prompt\":null,\"prefix_hash_ids\":[7]") + "\r\n" +
               line("600", "1", ",\"arrival_s\":1,\"prompt\":\"a\\u00e9\""));
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[0].prompt_tokens, 10);
  EXPECT_EQ(requests[0].output_tokens, 20);
  EXPECT_EQ(requests[0].arrival_s, 0.5);
  EXPECT_EQ(requests[0].prefix_hash_ids, std::vector<std::uint64_t>{7});
  EXPECT_EQ(requests[1].prompt, "a\xC3\xA9");
  EXPECT_EQ(requests[1].arrival_s, 1);
}

TEST(JsonlTrace, NoArrivalIsNaN) {
  const auto requests = read_all(line("1", "1", ",\"arrival_s\":null") + line("1", "1"));
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_TRUE(std::isnan(requests[0].arrival_s));
}

TEST(JsonlTrace, RefusesByLineAndField) {
  const std::string good = line("1", "1", ",\"arrival_s\":5");
  const std::map<std::string, std::string> wrong = {
      {line("0", "1"), "t:2: prompt_tokens: must be a whole number from 1 to 10000000"},
      {line("1", "-3"), "t:2: output_tokens: must be"},
      {line("1.5", "1"), "t:2: prompt_tokens: must be"},
      {line("\"1\"", "1"), "t:2: prompt_tokens: must be"},
      {line("99999999999999999999", "1"), "t:2: prompt_tokens: must be"},
      {line("null", "1"), "t:2: prompt_tokens: missing"},
      {line("1", "1", ",\"arrival_s\":4.9"), "t:2: arrival_s: earlier"},
      {line("1", "1", ",\"arrival_s\":-1"), "t:2: arrival_s: must be"},
      {line("1", "1", ",\"arrival_s\":1e300"), "t:2: arrival_s: must be"},
      {line("1", "1"), "t:2: arrival_s: some requests have"},
      {line("1", "1", ",\"arrival_s\":5,\"prompt\":3"), "t:2: prompt: must be a string"},
      {line("1", "1", ",\"arrival_s\":5,\"prefix_hash_ids\":[1,2]"), "t:2: prefix_hash_ids: 2 ids"},
      {line("1", "1", ",\"arrival_s\":5,\"prefix_hash_ids\":[-1]"), "t:2: prefix_hash_ids.0: must be"},
      {line("1", "1", ",\"arrival_s\":5,\"prefix_hash_ids\":[\"x\"]"), "t:2: prefix_hash_ids.0: must be"},
      {"{\"prompt_tokens\":1,", "t:2: not JSON"},
      {"[[[[[[[[[[[[", "t:2: not JSON"},
      {"7", "t:2: not a JSON object"},
  };
  for (const auto& [text, message] : wrong)
    EXPECT_TRUE(trace_error(good + text).starts_with(message)) << text << " -> " << trace_error(good + text);
  EXPECT_EQ(trace_error(good), "");
}

TEST(JsonlTrace, LongLinesAreBounded) {
  const std::string huge = "{\"prompt_tokens\":1,\"output_tokens\":1,\"prompt\":\"" +
                           std::string(std::size_t{17} << 20, 'x') + "\"}\n";
  EXPECT_EQ(trace_error(huge), "t:1: longer than 16777216 bytes");
}

TEST(CustomTrace, CountsTokensOfText) {
  TraceOptions options;
  options.count_tokens = [](std::string_view text) { return static_cast<std::int64_t>(text.size()); };
  options.default_output_tokens = 9;
  const auto requests = read_all("{\"prompt\":\"hello\"}\n{\"prompt\":\"a\",\"output_tokens\":3}", options);
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[0].prompt_tokens, 5);
  EXPECT_EQ(requests[0].output_tokens, 9);
  EXPECT_EQ(requests[1].output_tokens, 3);
  EXPECT_EQ(trace_error("{\"prompt\":\"\"}"), "t:1: prompt: missing or empty");
}

TEST(AzureTrace, ReadsTimesOverMidnightAndOffsets) {
  const auto requests = read_all(
      "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
      "2023-12-31 23:59:59.5,374,44\r\n2024-01-01 "
      "00:00:01.7500000,396,109\r\n2024-01-01T01:00:02+01:00,1,1\n");
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_EQ(requests[0].arrival_s, 0);
  EXPECT_NEAR(requests[1].arrival_s, 2.25, 1e-6);
  EXPECT_NEAR(requests[2].arrival_s, 2.5, 1e-6);
  EXPECT_EQ(requests[1].prompt_tokens, 396);
  EXPECT_EQ(requests[1].output_tokens, 109);
}

TEST(AzureTrace, RefusesByLineAndField) {
  const std::string head = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:00:00,1,1\n";
  EXPECT_TRUE(trace_error("TIMESTAMP,a,b\n").starts_with("t:1: the first line must be"));
  EXPECT_TRUE(trace_error(head + "2023-11-16 18:00:01,1\n").starts_with("t:3: must have three fields"));
  EXPECT_TRUE(trace_error(head + "2023-13-16 18:00:01,1,1\n").starts_with("t:3: TIMESTAMP: must look like"));
  EXPECT_TRUE(trace_error(head + "2023-11-16 18:00:01x,1,1\n").starts_with("t:3: TIMESTAMP: must look like"));
  EXPECT_TRUE(trace_error(head + "2023-11-16 17:00:01,1,1\n").starts_with("t:3: TIMESTAMP: earlier"));
  EXPECT_TRUE(trace_error(head + "2023-11-16 18:00:01,0,1\n").starts_with("t:3: ContextTokens: must be"));
  EXPECT_TRUE(trace_error(head + "2023-11-16 18:00:01,1,1e3\n").starts_with("t:3: GeneratedTokens: must be"));
  EXPECT_TRUE(trace_error(head + "2023-11-16 18:00:01,1,99999999999\n").starts_with("t:3: GeneratedTokens"));
}

TEST(MooncakeTrace, ReadsMillisecondsAndHashes) {
  const auto requests = read_all(
      "{\"timestamp\": 0, \"input_length\": 1000, \"output_length\": 5, \"hash_ids\": [3, 4]}\n"
      "{\"timestamp\": 1500, \"input_length\": 1025, \"output_length\": 6, \"hash_ids\": [3, 4, "
      "18446744073709551615]}");
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[1].arrival_s, 1.5);
  EXPECT_EQ(requests[1].prefix_hash_ids, (std::vector<std::uint64_t>{3, 4, 18446744073709551615ull}));
  EXPECT_TRUE(trace_error("{\"input_length\":1}").starts_with("t:1: timestamp: missing"));
}

constexpr const char* kChats = R"([
  {"id": "a", "conversations": [{"from": "human", "value": "what is a {pagoda]?"},
                                {"from": "gpt", "value": "A tower \"with\" roofs."},
                                {"from": "human", "value": "and in Burma?"},
                                {"from": "gpt", "value": "A stupa, gilded."}]},
  {"id": "b", "conversations": [{"from": "human", "value": "only one turn"}]},
  {"id": "c", "conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "hello there you"}]}
])";

TraceOptions by_bytes() {
  TraceOptions options;
  options.count_tokens = [](std::string_view text) { return static_cast<std::int64_t>(text.size()); };
  return options;
}

TEST(ShareGptTrace, TakesTheFirstTwoTurns) {
  const auto requests = read_all(kChats, by_bytes());
  ASSERT_EQ(requests.size(), 1u);  // b has no answer, c's question is pruned
  EXPECT_EQ(requests[0].prompt, "what is a {pagoda]?");
  EXPECT_EQ(requests[0].prompt_tokens, 19);
  EXPECT_EQ(requests[0].output_tokens, 21);
  TraceOptions all = by_bytes();
  all.prune_like_vllm = false;
  EXPECT_EQ(read_all(kChats, all).size(), 2u);
}

TEST(ShareGptTrace, RoundsCarryTheirHistory) {
  TraceOptions options = by_bytes();
  options.max_rounds = 5;
  auto requests = read_all(kChats, options);
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[1].prompt_tokens, 19 + 21 + 13);
  EXPECT_EQ(requests[1].prompt, "what is a {pagoda]?\nA tower \"with\" roofs.\nand in Burma?");
  EXPECT_EQ(requests[1].shared_prefix_id, requests[0].shared_prefix_id);
  options.max_history_tokens = 30;
  requests = read_all(kChats, options);
  EXPECT_EQ(requests[1].prompt_tokens, 30);
  EXPECT_EQ(requests[1].prompt, "");
}

TEST(ShareGptTrace, RefusesByLine) {
  EXPECT_TRUE(trace_error("[\n{\"conversations\": 3}]").starts_with("t:2: conversations: must be an array"));
  EXPECT_TRUE(trace_error("[{\"conversations\": []}\n{}]").starts_with("t:2: expected ',' or ']'"));
  EXPECT_TRUE(trace_error("[\n\n{\"conversations\": [").starts_with("t:3: the file ends inside"));
  EXPECT_TRUE(trace_error("[3]").starts_with("t:1: expected a conversation"));
  EXPECT_TRUE(trace_error("[] x").starts_with("t:1: text after the array's end"));
  EXPECT_TRUE(trace_error("[{\"conversations\": [{\"from\":\"human\",\"value\":1},{}]}]")
                  .starts_with("t:1: conversations.0: value: must be a string"));
  EXPECT_EQ(trace_error("[]"), "");
}

TEST(TraceReader, RefusesUnknownForms) {
  EXPECT_TRUE(trace_error("hello").starts_with("t:1: unknown trace format"));
  EXPECT_EQ(trace_error(""), "");
  TraceOptions rounds;
  rounds.max_rounds = 2;
  EXPECT_TRUE(trace_error(line("1", "1"), rounds).starts_with("t: rounds: only ShareGPT's"));
  EXPECT_FALSE(parse_trace_form("parquet"));
  EXPECT_EQ(open_trace("/nonexistent/trace", {}).error().code(), StatusCode::not_found);
}

TEST(TraceReader, ReadsThePublishedFiles) {
  const std::string folder = test_data_folder();
  if (folder.empty()) GTEST_SKIP() << "no shared data (PAGODA_SHARED_DATA): published traces are not read";
  const std::map<std::string, std::pair<std::int64_t, double>> files = {
      {"alpaca", {9225, 17.9}},
      {"sharegpt_lengths_llama2", {30731, 2340.0}},
      {"azure_2023_conv", {19366, 1154.7}},
      {"mooncake_conversation", {12031, 12035}},
      {"wmt16_ende_5shot", {466, 323.8}},
      {"sharegpt_multiturn_llama3", {300, 857.5}}};
  for (const auto& [name, expected] : files) {
    auto trace = open_trace(concat(folder, "/workloads/", name, ".jsonl"), {});
    ASSERT_TRUE(trace) << trace.error().message();
    std::int64_t count = 0;
    double tokens = 0;
    for (;; ++count) {
      const auto request = (*trace)->next();
      ASSERT_TRUE(request) << request.error().message();
      if (!*request) break;
      tokens += (*request)->prompt_tokens;
    }
    EXPECT_EQ(count, expected.first) << name;
    EXPECT_NEAR(tokens / static_cast<double>(count), expected.second, expected.second * 0.005) << name;
  }
}

}  // namespace
}  // namespace pagoda
