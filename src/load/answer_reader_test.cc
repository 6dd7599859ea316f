// Goal: events and chunks are found whatever the pieces they come in, and tokens are counted as they should.
#include "load/answer_reader.h"

#include <gtest/gtest.h>

#include "base/strings.h"

namespace pagoda {
namespace {

std::vector<std::string> scan(const std::vector<std::string>& pieces) {
  SseScanner scanner;
  std::vector<std::string> events;
  const auto keep = [&](std::string_view data) { events.emplace_back(data); };
  for (const std::string& piece : pieces) EXPECT_TRUE(scanner.feed(piece, keep));
  scanner.finish(keep);
  return events;
}

TEST(SseScanner, AnyCutGivesTheSameEvents) {
  const std::string stream =
      ": ping\n\ndata: {\"a\":1}\n\nevent: x\r\ndata:two\r\ndata: lines\r\n\r\n\n\ndatax: no\ndata\n\nid: "
      "3\n\n"
      "data:  spaced\r\n\r\ndata: [DONE]\n";
  const std::vector<std::string> expected = {"{\"a\":1}", "two\nlines", "", " spaced", "[DONE]"};
  EXPECT_EQ(scan({stream}), expected);
  for (std::size_t i = 0; i <= stream.size(); ++i)
    EXPECT_EQ(scan({stream.substr(0, i), stream.substr(i)}), expected) << i;
  std::vector<std::string> bytes;
  for (const char c : stream) bytes.emplace_back(1, c);
  EXPECT_EQ(scan(bytes), expected);
}

TEST(SseScanner, EndlessEventsAreRefused) {
  const std::string piece(std::size_t{1} << 20, 'x');
  SseScanner line, lines;
  const auto ignore = [](std::string_view) {};
  bool ok = true;
  for (int i = 0; i < 17 && ok; ++i) ok = line.feed(piece, ignore);
  EXPECT_FALSE(ok);
  ok = true;
  for (int i = 0; i < 17 && ok; ++i) ok = lines.feed("data: " + piece + "\n", ignore);
  EXPECT_FALSE(ok);
}

TEST(ChunkFacts, FindsWhatCounts) {
  ChunkFacts facts;
  ASSERT_TRUE(
      scan_chunk(R"( {"id":"c\"}{","object":"x","choices":[ {"logprobs":{"content":[{"token":"no"}]},)"
                 R"("index":2,"delta":{"role":"assistant","content":"h\u00e9\"}"},"finish_reason":null,)"
                 R"("token_ids":[1,2,3]},{"text":"b","finish_reason":"stop"}],)"
                 R"("usage":{"prompt_tokens":12,"prompt_tokens_details":{"x":[1]},"completion_tokens":4}} )",
                 facts));
  ASSERT_EQ(facts.choices.size(), 2u);
  EXPECT_EQ(facts.choices[0].index, 2);
  EXPECT_EQ(facts.choices[0].num_token_ids, 3);
  EXPECT_FALSE(facts.choices[0].finished);
  EXPECT_EQ(unescape_json(facts.choices[0].text), "h\xC3\xA9\"}");
  EXPECT_EQ(facts.choices[1].text, "b");
  EXPECT_TRUE(facts.choices[1].finished);
  EXPECT_EQ(facts.choices[1].num_token_ids, -1);
  EXPECT_EQ(facts.prompt_tokens, 12);
  EXPECT_EQ(facts.completion_tokens, 4);
  EXPECT_FALSE(facts.error);
}

TEST(ChunkFacts, UsageNullAndErrors) {
  ChunkFacts facts;
  ASSERT_TRUE(scan_chunk(R"({"choices":[],"usage":null,"error":null})", facts));
  EXPECT_TRUE(facts.choices.empty());
  EXPECT_FALSE(facts.completion_tokens);
  EXPECT_FALSE(facts.error);
  ASSERT_TRUE(scan_chunk(R"({"error":{"code":5,"message":"no \"room\""}})", facts));
  EXPECT_EQ(facts.error, "no \"room\"");
  ASSERT_TRUE(scan_chunk(R"({"error":"plain"})", facts));
  EXPECT_EQ(facts.error, "plain");
  ASSERT_TRUE(scan_chunk(R"({"usage":{"completion_tokens":1.5,"prompt_tokens":1e9}})", facts));
  EXPECT_FALSE(facts.completion_tokens);
}

TEST(ChunkFacts, MalformedTextIsRefusedAndNeverRead) {
  const std::string good =
      R"({"choices":[{"index":0,"text":"a\\","token_ids":[1,{"b":2}]}],"usage":{"completion_tokens":4}})";
  ChunkFacts facts;
  ASSERT_TRUE(scan_chunk(good, facts));
  for (std::size_t i = 0; i < good.size(); ++i)
    EXPECT_FALSE(scan_chunk(std::string(good.substr(0, i)), facts)) << good.substr(0, i);
  for (const char* bad : {"", "[]", "{", "{\"a\"}", "{\"a\":}", "{\"a\":1,}x", "{\"choices\":[{]}", "{}{}",
                          "{\"a\":1 \"b\":2}", "{\"a\":]}"})
    EXPECT_FALSE(scan_chunk(bad, facts)) << bad;
  const std::string deep = "{\"a\":" + std::string(100'000, '[');
  EXPECT_FALSE(scan_chunk(deep, facts));
  std::string nested = R"({"choices":[{)";
  for (int i = 0; i < 200'000; ++i) nested += R"("delta":{)";
  EXPECT_FALSE(scan_chunk(nested, facts));
  // An inner delta is ignored.
  ASSERT_TRUE(scan_chunk(R"({"choices":[{"delta":{"content":"a","delta":{"content":"b"}}}]})", facts));
  EXPECT_EQ(facts.choices.at(0).text, "a");
}

TEST(UnescapeJson, SurrogatesAndNonsense) {
  EXPECT_EQ(unescape_json(R"(a\n\t\"\\\/)"), "a\n\t\"\\/");
  EXPECT_EQ(unescape_json(R"(\ud83d\ude00)"), "\xF0\x9F\x98\x80");
  EXPECT_EQ(unescape_json(R"(\ud83d)"), "\xEF\xBF\xBD");
  EXPECT_EQ(unescape_json(R"(\u12)"),
            "\xEF\xBF\xBD"
            "12");
  EXPECT_EQ(unescape_json("\\"), "");
}

constexpr TimeNs kMs = 1'000'000;

RequestOutcome read(const std::vector<std::pair<TimeNs, std::string>>& events) {
  AnswerReader reader(0, AnswerReader::Texts::drop);
  reader.head(200, true);
  for (const auto& [time, data] : events)
    if (!reader.body(time * kMs, concat("data: ", data, "\n\n"))) break;
  return reader.finish(9, "");
}

std::string text(const char* t) { return concat(R"({"choices":[{"index":0,"text":")", t, R"("}]})"); }

TEST(AnswerReader, ChunksWithoutCountsAreTokens) {
  const RequestOutcome o = read({{10, text("a")}, {20, text("b")}, {40, text("c")}, {41, "[DONE]"}});
  EXPECT_EQ(o.error, "");
  EXPECT_EQ(o.output_tokens, 3);
  EXPECT_EQ(o.prompt_tokens, 9);
  EXPECT_NEAR(o.ttft_s, 0.010, 1e-9);
  EXPECT_NEAR(o.e2e_s, 0.040, 1e-9);
  EXPECT_EQ(o.itl_s, (std::vector<float>{0.010f, 0.020f}));
}

TEST(AnswerReader, TheFinalUsageIsSpreadOverChunks) {
  // 7 tokens in 3 chunks: the 6 after the first take 10 ms each.
  const RequestOutcome o = read({{10, text("a")},
                                 {40, text("bcd")},
                                 {70, text("efg")},
                                 {70, R"({"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":7}})"},
                                 {70, "[DONE]"}});
  EXPECT_EQ(o.output_tokens, 7);
  EXPECT_EQ(o.prompt_tokens, 5);
  ASSERT_EQ(o.itl_s.size(), 6u);
  for (const float gap : o.itl_s) EXPECT_NEAR(gap, 0.010f, 1e-6f);
  EXPECT_NEAR(o.longest_gap_s, 0.030, 1e-6);  // a reader's whole wait
}

TEST(AnswerReader, TokenIdsCount) {
  const RequestOutcome o = read({{10, R"({"choices":[{"text":"a","token_ids":[1,2]}]})"},
                                 {15, R"({"choices":[{"text":"","token_ids":[]}]})"},
                                 {30, R"({"choices":[{"text":"","token_ids":[3,4]}]})"},
                                 {31, "[DONE]"}});
  EXPECT_EQ(o.output_tokens, 4);
  EXPECT_EQ(o.itl_s, (std::vector<float>{0.010f, 0.010f}));
}

TEST(AnswerReader, AChatsRoleIsNoToken) {
  const RequestOutcome o = read({{5, R"({"choices":[{"delta":{"role":"assistant","content":""}}]})"},
                                 {10, R"({"choices":[{"delta":{"content":"a"}}]})"},
                                 {20, R"({"choices":[{"delta":{"reasoning_content":"b","content":null}}]})"},
                                 {21, R"({"choices":[{"delta":{},"finish_reason":"stop"}]})"}});
  EXPECT_EQ(o.error, "");  // no [DONE], but an end
  EXPECT_NEAR(o.ttft_s, 0.010, 1e-9);
  EXPECT_EQ(o.output_tokens, 2);
}

TEST(AnswerReader, ChoicesHaveTheirOwnGaps) {
  const auto choice = [](int i) { return concat(R"({"choices":[{"index":)", i, R"(,"text":"x"}]})"); };
  const RequestOutcome o =
      read({{10, choice(0)}, {11, choice(1)}, {20, choice(0)}, {22, choice(1)}, {22, "[DONE]"}});
  EXPECT_EQ(o.output_tokens, 4);
  ASSERT_EQ(o.itl_s.size(), 2u);
  EXPECT_NEAR(o.itl_s[0], 0.010f, 1e-6f);
  EXPECT_NEAR(o.itl_s[1], 0.011f, 1e-6f);
}

TEST(AnswerReader, HostileIndicesAndCounts) {
  EXPECT_TRUE(
      read({{1, R"({"choices":[{"index":99999999999,"text":"x"}]})"}}).error.starts_with("malformed chunk"));
  EXPECT_TRUE(read({{1, R"({"choices":[{"index":-1,"text":"x"}]})"}}).error.starts_with("malformed chunk"));
  const RequestOutcome o = read({{1, text("a")},
                                 {2, text("b")},
                                 {2, R"({"choices":[],"usage":{"completion_tokens":9000000000000000000}})"},
                                 {2, "[DONE]"}});
  EXPECT_EQ(o.output_tokens, 2);
  EXPECT_EQ(o.itl_s.size(), 1u);
}

// One answer of two words in each protocol's stream: the text, the tokens and the end are found.
struct Spoken {
  const char* name;
  bool lines;
  std::string stream;
};
class Protocols : public ::testing::TestWithParam<Spoken> {};

TEST_P(Protocols, AreReadAlike) {
  AnswerReader reader(0, AnswerReader::Texts::keep);
  reader.head(200, !GetParam().lines, GetParam().lines);
  TimeNs now = 0;
  for (const char c : GetParam().stream) ASSERT_TRUE(reader.body(++now, std::string_view(&c, 1)));
  const RequestOutcome outcome = reader.finish(0, "");
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.text, "a b");
  EXPECT_EQ(outcome.prompt_tokens, 7);
  EXPECT_EQ(outcome.output_tokens, 3);
}

INSTANTIATE_TEST_SUITE_P(
    All, Protocols,
    ::testing::Values(
        Spoken{"responses", false,
               "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"error\":null,"
               "\"output\":[]}}\n\n"
               "data: {\"type\":\"response.output_text.delta\",\"delta\":\"a\"}\n\n"
               "data: {\"type\":\"response.output_text.delta\",\"delta\":\" b\"}\n\n"
               "data: {\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":7,"
               "\"input_tokens_details\":{\"cached_tokens\":2},\"output_tokens\":3}}}\n\n"},
        Spoken{
            "messages", false,
            "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"content\":[],"
            "\"usage\":{\"input_tokens\":5}}}\n\n"
            "data: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\n\n"
            "data: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\" b\"}}\n\n"
            "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":"
            "{\"input_tokens\":5,\"cache_read_input_tokens\":2,\"output_tokens\":3}}\n\n"
            "data: {\"type\":\"message_stop\"}\n\n"},
        Spoken{"ollama", true,
               "{\"message\":{\"role\":\"assistant\",\"content\":\"a\"},\"done\":false}\n"
               "{\"message\":{\"role\":\"assistant\",\"content\":\" b\"},\"done\":false}\n"
               "{\"message\":{\"content\":\"\"},\"done\":true,\"prompt_eval_count\":7,\"eval_count\":3}\n"},
        Spoken{"llamacpp", false,
               "data: {\"content\":\"a\",\"stop\":false,\"tokens_predicted\":1,\"tokens_evaluated\":7}\n\n"
               "data: {\"content\":\" b\",\"stop\":false,\"tokens_predicted\":2,\"tokens_evaluated\":7}\n\n"
               "data: {\"content\":\"\",\"stop\":true,\"tokens_predicted\":3,\"tokens_evaluated\":7}\n\n"}),
    [](const ::testing::TestParamInfo<Spoken>& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace pagoda
