#include "api/openai/response_builder.h"

#include <gtest/gtest.h>

#include <boost/json/array.hpp>

#include "api/json.h"
#include "api/openai/request_parser.h"
#include "api/test_support.h"
#include "base/utf8.h"

namespace pagoda {
namespace {

namespace json = boost::json;

// A call as a client would make it, and its answer as the engine's outputs come in.
struct Call {
  explicit Call(CallKind kind, std::string_view body)
      : parsed(parse_call(kind, body, {.id = "id", .created = 123}, model.context)) {
    EXPECT_TRUE(parsed.has_value()) << parsed.error().message();
    builder.emplace(std::move(parsed->response), model.context);
  }

  void add(SequenceDelta delta, bool last = false, std::size_t prompt = 0) {
    RequestOutput output;
    output.deltas.push_back(std::move(delta));
    output.finished = last;
    builder->add(prompt, std::move(output));
  }
  void add_last(std::string_view text, FinishReason reason, std::int32_t index = 0, std::size_t prompt = 0) {
    SequenceDelta delta = delta_of(text, index);
    delta.finish_reason = reason;
    add(std::move(delta), true, prompt);
  }
  json::value body() {
    auto value = parse_json(builder->body());
    EXPECT_TRUE(value.has_value());
    return *value;
  }

  TestModel model;
  Result<ParsedCall> parsed;
  std::optional<ResponseBuilder> builder;
};

// The JSON of each event; the text [DONE] as a string.
std::vector<json::value> events_of(std::string_view stream) {
  std::vector<json::value> events;
  while (!stream.empty()) {
    EXPECT_TRUE(stream.starts_with("data: "));
    const std::size_t end = stream.find("\n\n");
    EXPECT_NE(end, std::string_view::npos);
    const std::string_view data = stream.substr(6, end - 6);
    if (data == "[DONE]") {
      events.emplace_back("[DONE]");
    } else {
      auto value = parse_json(data);
      EXPECT_TRUE(value.has_value()) << data;
      events.push_back(*value);
    }
    stream.remove_prefix(end + 2);
  }
  return events;
}

std::string str(const json::value& value) { return std::string(value.as_string().c_str()); }

TEST(ResponseBuilder, ACompletionInOneBody) {
  Call call(CallKind::completion, R"({"prompt":"hi"})");
  call.add(delta_of("he"));
  EXPECT_FALSE(call.builder->finished());
  call.add_last("y", FinishReason::length);
  ASSERT_TRUE(call.builder->finished());
  const json::value body = call.body();
  EXPECT_EQ(str(body.at("id")), "cmpl-id");
  EXPECT_EQ(str(body.at("object")), "text_completion");
  EXPECT_EQ(body.at("created").as_int64(), 123);
  EXPECT_EQ(str(body.at("model")), "tiny");
  const json::value& choice = body.at("choices").at(0);
  EXPECT_EQ(str(choice.at("text")), "hey");
  EXPECT_EQ(str(choice.at("finish_reason")), "length");
  EXPECT_TRUE(choice.at("logprobs").is_null());
  EXPECT_TRUE(choice.at("stop_reason").is_null());
  EXPECT_FALSE(choice.as_object().contains("cumulative_logprob"));
  EXPECT_EQ(body.at("usage").at("prompt_tokens").as_int64(), 3);
  EXPECT_EQ(body.at("usage").at("completion_tokens").as_int64(), 3);
  EXPECT_EQ(body.at("usage").at("total_tokens").as_int64(), 6);
  EXPECT_EQ(body.at("usage").at("prompt_tokens_details").at("cached_tokens").as_int64(), 0);
}

TEST(ResponseBuilder, AChatAnswerHasTheFieldsThatTheSchemaRequires) {
  Call call(CallKind::chat, R"({"messages":[{"role":"user","content":"q"}]})");
  call.add_last("ok", FinishReason::stop);
  const json::value body = call.body();
  EXPECT_EQ(str(body.at("object")), "chat.completion");
  const json::value& message = body.at("choices").at(0).at("message");
  EXPECT_EQ(str(message.at("role")), "assistant");
  EXPECT_TRUE(message.at("refusal").is_null());
  EXPECT_TRUE(body.at("choices").at(0).at("logprobs").is_null());
  EXPECT_EQ(str(body.at("system_fingerprint")), "fp_test");
}

// The token that ends a sequence is counted and listed, but is no text.
TEST(ResponseBuilder, AStopTokenIsNoText) {
  for (const bool include : {false, true}) {
    Call call(CallKind::completion,
              include ? R"({"prompt":"hi","include_stop_str_in_output":true,"return_token_ids":true})"
                      : R"({"prompt":"hi","return_token_ids":true})");
    SequenceDelta delta = delta_of("ab!");
    delta.finish_reason = FinishReason::stop;
    delta.stop_token = '!';
    call.add(std::move(delta), true);
    const json::value body = call.body();
    const json::value& choice = body.at("choices").at(0);
    EXPECT_EQ(str(choice.at("text")), include ? "ab!" : "ab");
    EXPECT_EQ(choice.at("stop_reason").as_int64(), '!');
    EXPECT_EQ(choice.at("token_ids").as_array().size(), 3u);
    EXPECT_EQ(choice.at("prompt_token_ids").as_array().size(), 3u);
    EXPECT_EQ(body.at("prompt_token_ids").as_array().size(), 3u);
    EXPECT_EQ(body.at("usage").at("completion_tokens").as_int64(), 3);
  }
}

TEST(ResponseBuilder, AStopStringEndsTheTextAndTheSequence) {
  Call call(CallKind::completion, R"({"prompt":"hi","stop":["END"]})");
  call.add(delta_of("some E"));
  EXPECT_TRUE(call.builder->take_stops().empty());
  call.add(delta_of("NDxyz"));
  const auto stops = call.builder->take_stops();
  ASSERT_EQ(stops.size(), 1u);
  EXPECT_EQ(stops[0].sequence, 0);
  ASSERT_TRUE(call.builder->finished());
  call.add_last("zz", FinishReason::abort);  // the engine's answer to the abort comes late
  const json::value body = call.body();
  const json::value& choice = body.at("choices").at(0);
  EXPECT_EQ(str(choice.at("text")), "some ");
  EXPECT_EQ(str(choice.at("finish_reason")), "stop");
  EXPECT_EQ(str(choice.at("stop_reason")), "END");
  EXPECT_EQ(body.at("usage").at("completion_tokens").as_int64(), 8);  // up to the token that completed it
}

TEST(ResponseBuilder, MinTokensPassesOverStopStrings) {
  Call call(CallKind::completion, R"({"prompt":"hi","stop":["a"],"min_tokens":3})");
  call.add_last("bacab", FinishReason::length);
  EXPECT_EQ(str(call.body().at("choices").at(0).at("text")), "bac");
}

TEST(ResponseBuilder, TextHeldForAStopStringComesAtTheEnd) {
  Call call(CallKind::completion, R"({"prompt":"hi","stop":["END"],"stream":true})");
  call.add(delta_of("xEN"));
  const std::string first = call.builder->take_events();
  EXPECT_EQ(str(events_of(first).at(0).at("choices").at(0).at("text")), "x");
  call.add_last("", FinishReason::length);
  const auto rest = events_of(call.builder->take_events());
  EXPECT_EQ(str(rest.at(0).at("choices").at(0).at("text")), "EN");
  EXPECT_EQ(str(rest.at(1)), "[DONE]");
}

TEST(ResponseBuilder, ACharacterIsNeverCut) {
  Call call(CallKind::completion, R"({"prompt":"hi","stream":true})");
  std::string text;
  const std::string whole = "a\xc3\xa9\xf0\x9f\x98\x80!";
  for (std::size_t i = 0; i < whole.size(); ++i) {
    if (i + 1 < whole.size())
      call.add(delta_of(whole.substr(i, 1)));
    else
      call.add_last(whole.substr(i, 1), FinishReason::length);
    for (const json::value& event : events_of(call.builder->take_events())) {
      if (event.is_string()) continue;
      text += str(event.at("choices").at(0).at("text"));
      EXPECT_TRUE(is_valid_utf8(text));
    }
  }
  EXPECT_EQ(text, whole);
}

TEST(ResponseBuilder, AStreamHasTheShapeOfOpenAis) {
  Call call(
      CallKind::chat,
      R"({"messages":[{"role":"user","content":"q"}],"stream":true,"stream_options":{"include_usage":true}})");
  call.add(delta_of("a"));
  std::string stream = call.builder->take_events();
  call.add_last("b", FinishReason::stop);
  stream += call.builder->take_events();
  EXPECT_EQ(call.builder->take_events(), "");
  const auto events = events_of(stream);
  ASSERT_EQ(events.size(), 5u) << stream;
  const json::value& role = events[0].at("choices").at(0).at("delta");
  EXPECT_EQ(str(role.at("role")), "assistant");
  EXPECT_EQ(str(role.at("content")), "");
  EXPECT_EQ(str(events[1].at("choices").at(0).at("delta").at("content")), "a");
  EXPECT_TRUE(events[1].at("choices").at(0).at("finish_reason").is_null());
  EXPECT_EQ(str(events[2].at("choices").at(0).at("finish_reason")), "stop");
  EXPECT_TRUE(events[3].at("choices").as_array().empty());
  EXPECT_EQ(events[3].at("usage").at("completion_tokens").as_int64(), 2);
  EXPECT_EQ(events[3].at("usage").at("timings"), events[2].at("timings"));
  for (std::size_t i : {0, 1}) EXPECT_FALSE(events[i].as_object().contains("timings"));
  EXPECT_EQ(str(events[4]), "[DONE]");
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(str(events[i].at("object")), "chat.completion.chunk");
    EXPECT_EQ(str(events[i].at("id")), "chatcmpl-id");
    if (i < 3) EXPECT_FALSE(events[i].as_object().contains("usage"));
  }
}

TEST(ResponseBuilder, UsageTellsWhereTheTimeWent) {
  Call call(CallKind::completion, R"({"prompt":"hi"})");
  RequestOutput output;
  output.deltas.push_back(delta_of("hey"));
  output.deltas.back().finish_reason = FinishReason::length;
  output.finished = true;
  output.times = {.arrival = 1'000'000,
                  .first_scheduled = 3'000'000,
                  .first_token = 13'000'000,
                  .last_token = 33'000'000,
                  .preempted_prefill = 1'000'000,
                  .preempted_decode = 5'000'000,
                  .draft_tokens = 7,
                  .accepted_tokens = 4};
  call.builder->add(0, std::move(output));
  const json::value body = call.body();
  const json::value& timings = body.at("usage").at("timings");
  const std::pair<const char*, double> expected[] = {{"queue_ms", 2},
                                                     {"prompt_ms", 9},
                                                     {"predicted_ms", 15},
                                                     {"preempted_ms", 6},
                                                     {"prompt_n", 3},
                                                     {"predicted_n", 3},
                                                     {"cache_n", 0},
                                                     {"draft_n", 7},
                                                     {"draft_n_accepted", 4},
                                                     {"predicted_per_token_ms", 5},
                                                     {"predicted_per_second", 200}};
  for (const auto& [name, value] : expected)
    EXPECT_DOUBLE_EQ(timings.at(name).to_number<double>(), value) << name;
}

TEST(ResponseBuilder, UsageCanComeWithEveryChunk) {
  Call call(
      CallKind::completion,
      R"({"prompt":"hi","stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}})");
  call.add(delta_of("a"));
  call.add(delta_of("\xc3"));  // no text yet, but a token
  const auto events = events_of(call.builder->take_events());
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].at("usage").at("completion_tokens").as_int64(), 2);
}

TEST(ResponseBuilder, CompletionLogprobsAreInOpenAisForm) {
  Call call(CallKind::completion, R"({"prompt":"hi","logprobs":2})");
  SequenceDelta delta = delta_of("ab");
  delta.logprobs = {
      logprobs_of('a', -0.5f, {{'a', -0.5f, 1}, {'q', -1.25f, 2}}),
      logprobs_of('b', -3.0f, {{'x', -0.1f, 1}, {'y', -std::numeric_limits<float>::infinity(), 2}})};
  delta.cumulative_logprob = -3.5;
  delta.finish_reason = FinishReason::length;
  call.add(std::move(delta), true);
  const json::value body = call.body();
  const json::value& choice = body.at("choices").at(0);
  const json::value& logprobs = choice.at("logprobs");
  EXPECT_EQ(logprobs.at("tokens").as_array(), (json::array{"a", "b"}));
  EXPECT_EQ(logprobs.at("text_offset").as_array(), (json::array{0, 1}));
  EXPECT_EQ(logprobs.at("token_logprobs").at(0).to_number<double>(), -0.5);
  EXPECT_EQ(logprobs.at("top_logprobs").at(0).as_object().size(), 2u);
  EXPECT_EQ(logprobs.at("top_logprobs").at(1).as_object().size(), 3u);
  EXPECT_EQ(logprobs.at("top_logprobs").at(1).at("y").to_number<double>(), -9999);
  EXPECT_EQ(choice.at("cumulative_logprob").to_number<double>(), -3.5);
}

TEST(ResponseBuilder, ChatLogprobsAreInOpenAisForm) {
  Call call(CallKind::chat,
            R"({"messages":[{"role":"user","content":"q"}],"logprobs":true,"top_logprobs":1})");
  SequenceDelta delta = delta_of("\xc3");
  delta.logprobs = {logprobs_of(0xc3, -0.1f, {{0xc3, -0.1f, 1}})};
  delta.cumulative_logprob = -0.1;
  delta.finish_reason = FinishReason::length;
  call.add(std::move(delta), true);
  const json::value body = call.body();
  const json::value& logprobs = body.at("choices").at(0).at("logprobs");
  EXPECT_TRUE(logprobs.at("refusal").is_null());
  const json::value& entry = logprobs.at("content").at(0);
  EXPECT_EQ(entry.at("bytes").at(0).as_int64(), 0xc3);
  EXPECT_EQ(str(entry.at("token")), "\xEF\xBF\xBD");
  EXPECT_EQ(entry.at("top_logprobs").as_array().size(), 1u);
}

TEST(ResponseBuilder, EchoShowsThePromptWithItsLogprobs) {
  Call call(CallKind::completion,
            R"({"prompt":"hi","echo":true,"logprobs":1,"add_special_tokens":false,"max_tokens":0})");
  RequestOutput output;
  output.prompt_logprobs = {std::nullopt, logprobs_of('i', -2.0f, {{'o', -0.2f, 1}})};
  SequenceDelta delta = delta_of("z");
  delta.logprobs = {logprobs_of('z', -1.0f)};
  delta.finish_reason = FinishReason::length;
  output.deltas.push_back(std::move(delta));
  output.finished = true;
  call.builder->add(0, std::move(output));
  const json::value body = call.body();
  const json::value& choice = body.at("choices").at(0);
  EXPECT_EQ(str(choice.at("text")), "hi");
  EXPECT_EQ(str(choice.at("finish_reason")), "length");
  const json::value& logprobs = choice.at("logprobs");
  EXPECT_EQ(logprobs.at("tokens").as_array(), (json::array{"h", "i"}));
  EXPECT_TRUE(logprobs.at("token_logprobs").at(0).is_null());
  EXPECT_TRUE(logprobs.at("top_logprobs").at(0).is_null());
  EXPECT_EQ(logprobs.at("token_logprobs").at(1).to_number<double>(), -2);
  EXPECT_EQ(body.at("usage").at("completion_tokens").as_int64(), 0);
}

TEST(ResponseBuilder, PromptLogprobsAreInVllmsForm) {
  Call call(CallKind::completion, R"({"prompt":"hi","prompt_logprobs":1,"add_special_tokens":false})");
  RequestOutput output;
  output.prompt_logprobs = {std::nullopt, logprobs_of('i', -2.0f, {{'o', -0.2f, 1}})};
  output.prompt_logprobs[1]->chosen.rank = 9;
  output.num_cached_tokens = 1;
  SequenceDelta delta = delta_of("z");
  delta.finish_reason = FinishReason::length;
  output.deltas.push_back(std::move(delta));
  output.finished = true;
  call.builder->add(0, std::move(output));
  const json::value body = call.body();
  const json::value& entries = body.at("choices").at(0).at("prompt_logprobs");
  EXPECT_TRUE(entries.at(0).is_null());
  EXPECT_EQ(entries.at(1).at("105").at("rank").as_int64(), 9);
  EXPECT_EQ(str(entries.at(1).at("111").at("decoded_token")), "o");
  EXPECT_EQ(body.at("usage").at("prompt_tokens_details").at("cached_tokens").as_int64(), 1);
}

TEST(ResponseBuilder, ChoicesOfSeveralPromptsAreNumberedThrough) {
  Call call(CallKind::completion, R"({"prompt":["a","b"],"n":2})");
  call.add_last("3", FinishReason::length, 1, 1);
  EXPECT_TRUE(call.builder->error().code() == StatusCode::unavailable)
      << "one sequence of the prompt never finished";

  Call good(CallKind::completion, R"({"prompt":["a","b"],"n":2})");
  for (const std::size_t prompt : {1u, 0u}) {
    for (const std::int32_t index : {1, 0}) {
      SequenceDelta delta =
          delta_of(std::string(1, static_cast<char>('0' + 2 * static_cast<int>(prompt) + index)), index);
      delta.finish_reason = FinishReason::length;
      good.add(std::move(delta), index == 0, prompt);
    }
  }
  const json::value body = good.body();
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(body.at("choices").at(static_cast<std::size_t>(i)).at("index").as_int64(), i);
    EXPECT_EQ(str(body.at("choices").at(static_cast<std::size_t>(i)).at("text")), std::to_string(i));
  }
}

TEST(ResponseBuilder, AnErrorEndsAStreamWithAnEvent) {
  Call call(CallKind::completion, R"({"prompt":"hi","stream":true})");
  call.add(delta_of("a"));
  call.builder->fail(unavailable("The server is shutting down."));
  const auto events = events_of(call.builder->take_events());
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(str(events[1].at("error").at("message")), "The server is shutting down.");
  EXPECT_EQ(str(events[1].at("error").at("type")), "service_unavailable_error");
  EXPECT_EQ(str(events[2]), "[DONE]");
}

TEST(ResponseBuilder, TokensCanBeShownAsIds) {
  Call call(CallKind::completion, R"({"prompt":"hi","logprobs":0,"return_tokens_as_token_ids":true})");
  SequenceDelta delta = delta_of("a");
  delta.logprobs = {logprobs_of('a', -1)};
  delta.finish_reason = FinishReason::length;
  call.add(std::move(delta), true);
  EXPECT_EQ(str(call.body().at("choices").at(0).at("logprobs").at("tokens").at(0)), "token_id:97");
}

TEST(ResponseBuilder, TheBestSoFarStandsBesideTheChoicesAndIsReplacedByThem) {
  Call call(CallKind::completion,
            R"({"prompt":"q","use_beam_search":true,"n":2,"stream":true,"stream_best_so_far":true})");
  const auto best = [](std::string_view text) {
    SequenceDelta delta = delta_of(text, SequenceDelta::kBestSoFar);
    delta.cumulative_logprob = -1.5;
    return delta;
  };
  call.add(best("ab"));
  call.add(best("abc"));
  auto events = events_of(call.builder->take_events());
  ASSERT_EQ(events.size(), 1u) << "the newest is enough";
  EXPECT_TRUE(events[0].at("choices").as_array().empty()) << "who knows nothing of it skips it";
  EXPECT_EQ(events[0].at("best_so_far").at("text").as_string(), "abc");
  EXPECT_EQ(events[0].at("best_so_far").at("num_tokens").as_int64(), 3);
  EXPECT_EQ(events[0].at("best_so_far").at("cumulative_logprob").to_number<double>(), -1.5);
  EXPECT_EQ(call.builder->take_events(), "");
  call.add(best("abcd"));
  RequestOutput last;
  last.finished = true;
  for (std::int32_t i = 0; i < 2; ++i) {
    last.deltas.push_back(delta_of(i == 0 ? "xy" : "xz", i));
    last.deltas.back().finish_reason = FinishReason::length;
  }
  call.builder->add(0, std::move(last));
  events = events_of(call.builder->take_events());
  ASSERT_EQ(events.size(), 3u) << "two choices and the end; what is over is not shown";
  EXPECT_EQ(events[0].at("choices").at(0).at("text").as_string(), "xy");
  EXPECT_EQ(events[2].as_string(), "[DONE]");
}

// A body, or one event of a stream, is written a little at a time, and what has been written is freed.
TEST(ResponseBuilder, PiecesJoinedAreTheWhole) {
  const auto answered = [](Call& call, std::size_t num_prompts, std::int32_t n) {
    for (std::size_t prompt = 0; prompt < num_prompts; ++prompt) {
      RequestOutput output;
      output.prompt_logprobs.resize(3, logprobs_of('p', -1, {{'q', -0.5f, 1}, {'p', -1, 2}}));
      for (std::int32_t i = 0; i < n; ++i) {
        SequenceDelta delta = delta_of("some text", i);
        for (const TokenId id : delta.token_ids)
          delta.logprobs.push_back(logprobs_of(id, -0.25f, {{id, -0.25f, 1}, {'z', -2, 2}}));
        delta.finish_reason = FinishReason::length;
        output.deltas.push_back(std::move(delta));
      }
      output.finished = true;
      call.builder->add(prompt, std::move(output));
    }
    EXPECT_TRUE(call.builder->finished());
  };
  struct Case {
    CallKind kind;
    std::string_view body;
    std::size_t num_prompts;
    std::int32_t n;
  };
  const Case cases[] = {
      {CallKind::completion,
       R"({"prompt":["abc","abc"],"add_special_tokens":false,"n":2,"logprobs":2,"prompt_logprobs":2,"echo":true})",
       2, 2},
      {CallKind::completion,
       R"({"prompt":"abc","add_special_tokens":false,"logprobs":2,"echo":true,"stream":true})", 1, 1},
      {CallKind::chat,
       R"({"messages":[{"role":"user","content":"a"}],"logprobs":true,"top_logprobs":2,"prompt_logprobs":1})",
       1, 1}};
  for (const Case& c : cases) {
    Call whole(c.kind, c.body), pieces(c.kind, c.body);
    answered(whole, c.num_prompts, c.n);
    answered(pieces, c.num_prompts, c.n);
    std::string expected, joined;
    EXPECT_FALSE(whole.builder->take(expected, std::size_t{1} << 30));
    EXPECT_EQ(pieces.builder->held(), 1);
    int count = 0;
    for (bool more = true; more; ++count) {
      std::string piece;
      more = pieces.builder->take(piece, 100);
      EXPECT_LT(piece.size(), 700u) << c.body;
      joined += piece;
    }
    EXPECT_EQ(joined, expected);
    EXPECT_GT(count, 3) << c.body;
    if (!pieces.builder->streaming()) EXPECT_EQ(pieces.builder->held(), 0);
    std::string nothing;
    EXPECT_FALSE(pieces.builder->take(nothing, 100));
    EXPECT_EQ(nothing, "") << "it is answered once";
  }
}

}  // namespace
}  // namespace pagoda
