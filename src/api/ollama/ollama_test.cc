// /api/generate and /api/chat: bodies as Ollama's clients send them, answers as they read them.
#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include "api/json.h"
#include "api/ollama/ollama_parser.h"
#include "api/ollama/ollama_protocol.h"
#include "api/ollama/ollama_writer.h"
#include "api/test_support.h"
#include "base/strings.h"

namespace pagoda {
namespace {

namespace json = boost::json;

constexpr std::string_view kHi = R"("messages":[{"role":"user","content":"hi"}])";

struct Asked {
  Asked(bool chat, std::string_view fields) : model(1000) {
    model.context.tool_parser = "hermes";
    call.emplace(parse_ollama_call(concat(R"({"model":"tiny:latest",)", fields, "}"), chat, model.context));
  }
  void say(std::string_view text, FinishReason reason = FinishReason::stop) {
    ASSERT_TRUE(*call) << call->error().message();
    const bool logprobs = (**call).answer.logprobs.has_value();
    OllamaWriter writer(**std::move(call), "ollama-1", 1, model.context);
    for (const char c : text) {
      SequenceDelta delta = delta_of(std::string_view(&c, 1));
      if (logprobs) delta.logprobs = {logprobs_of(c, -0.5f, {{.token = 'z', .logprob = -1.5f, .rank = 2}})};
      add(writer, std::move(delta), false);
    }
    SequenceDelta end;
    end.token_ids = {FakeTokenizer::kEos};
    end.finish_reason = reason;
    add(writer, std::move(end), true);
  }
  void add(OllamaWriter& writer, SequenceDelta delta, bool last) {
    RequestOutput output;
    output.deltas.push_back(std::move(delta));
    output.finished = last;
    writer.add(0, std::move(output));
    writer.take(out, std::size_t{1} << 20);
  }
  std::vector<json::value> lines() const {
    std::vector<json::value> all;
    for (std::size_t at = 0; at < out.size();) {
      const std::size_t end = std::min(out.find('\n', at), out.size());
      all.push_back(*parse_json(std::string_view(out).substr(at, end - at)));
      at = end + 1;
    }
    return all;
  }

  TestModel model;
  std::optional<Result<OllamaCall>> call;
  std::string out;
};

TEST(Ollama, AChatIsLinesAndTheLastHasTheCounts) {
  Asked asked(true, kHi);
  asked.say("abc");
  const std::vector<json::value> lines = asked.lines();
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0].at("message").at("content"), "a");
  EXPECT_EQ(lines[0].at("done"), false);
  EXPECT_EQ(lines[3].at("done"), true);
  EXPECT_EQ(lines[3].at("done_reason"), "stop");
  EXPECT_EQ(lines[3].at("eval_count"), 4);
  EXPECT_EQ(lines[3].at("created_at"), "1970-01-01T00:00:01Z");
}

TEST(Ollama, AWholeAnswerIsOneObject) {
  Asked asked(false, R"("prompt":"hi","stream":false,"options":{"num_predict":9,"seed":3})");
  ASSERT_TRUE(*asked.call);
  EXPECT_EQ((*asked.call)->request->sampling.max_tokens, 9);
  EXPECT_EQ((*asked.call)->request->sampling.seed, 3u);
  asked.say("abc", FinishReason::length);
  const std::vector<json::value> lines = asked.lines();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].at("response"), "abc");
  EXPECT_EQ(lines[0].at("done_reason"), "length");
}

constexpr std::string_view kTool = R"("tools":[{"type":"function","function":{"name":"f"}}],)";
constexpr std::string_view kCalls =
    "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\":\n 1}}</tool_call>"
    "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>";

TEST(Ollama, EachCallIsALineOfItsOwnBeforeTheLast) {
  Asked asked(true, concat(kTool, kHi));
  asked.say(kCalls);
  const std::vector<json::value> lines = asked.lines();
  ASSERT_EQ(lines.size(), 3u) << asked.out;
  const json::value& call = lines[0].at("message").at("tool_calls").at(0);
  EXPECT_EQ(call.at("function").at("name"), "f");
  EXPECT_EQ(json::serialize(call.at("function").at("arguments")), R"({"a":1})");
  EXPECT_EQ(lines[1].at("message").at("tool_calls").at(0).at("function").at("index"), 1);
  EXPECT_FALSE(call.at("id").as_string().empty());
  EXPECT_NE(call.at("id"), lines[1].at("message").at("tool_calls").at(0).at("id"));
  EXPECT_EQ(lines[0].at("done"), false);
  EXPECT_EQ(lines[2].at("done"), true);
  EXPECT_FALSE(lines[2].at("message").as_object().contains("tool_calls"));
}

TEST(Ollama, AWholeAnswerHasItsCallsAndItsEnd) {
  Asked asked(true, concat(R"("stream":false,)", kTool, kHi));
  asked.say(kCalls);
  const std::vector<json::value> lines = asked.lines();
  ASSERT_EQ(lines.size(), 1u) << asked.out;
  EXPECT_EQ(lines[0].at("message").at("tool_calls").as_array().size(), 2u);
  EXPECT_EQ(lines[0].at("done"), true);
}

TEST(Ollama, LogprobsStandBesideTheTokensTheyAreOf) {
  for (const bool stream : {true, false}) {
    Asked asked(true,
                concat(R"("logprobs":true,"top_logprobs":1,"stream":)", stream ? "true," : "false,", kHi));
    ASSERT_TRUE(*asked.call);
    EXPECT_EQ((*asked.call)->request->sampling.logprobs, 1);
    asked.say("ab");
    std::string tokens;
    for (const json::value& line : asked.lines())
      if (const json::value* logprobs = line.as_object().if_contains("logprobs"))
        for (const json::value& token : logprobs->as_array()) {
          tokens += token.at("token").as_string();
          EXPECT_EQ(token.at("logprob").to_number<double>(), -0.5);
          EXPECT_EQ(token.at("top_logprobs").at(0).at("token"), "z");
        }
    EXPECT_EQ(tokens, "ab") << asked.out;
  }
  Asked plain(true, concat(R"("logprobs":true,)", kHi));
  plain.say("a");
  EXPECT_FALSE(plain.lines().front().at("logprobs").at(0).as_object().contains("top_logprobs"));
}

TEST(Ollama, WithoutAPromptTheModelIsSaidToBeLoadedOrToLeave) {
  for (const auto& [fields, reason] : std::initializer_list<std::pair<const char*, const char*>>{
           {R"("prompt":"")", "load"},
           {R"("prompt":"","keep_alive":"5m")", "load"},
           {R"("prompt":"","keep_alive":-1)", "load"},
           {R"("keep_alive":0)", "unload"},
           {R"("prompt":"","keep_alive":0.0)", "unload"},
           {R"("keep_alive":"0s")", "unload"},
           {R"("keep_alive":"0m")", "unload"},
           {R"("keep_alive":"0h5m")", "load"}}) {
    Asked asked(false, fields);
    ASSERT_TRUE(*asked.call) << fields;
    EXPECT_FALSE((*asked.call)->request);
    OllamaWriter writer(**std::move(asked.call), "ollama-1", 1, asked.model.context);
    EXPECT_TRUE(writer.finished());
    std::string out;
    writer.take(out, 100);
    EXPECT_NE(out.find(concat(R"("done":true,"done_reason":")", reason, "\"")), std::string::npos) << out;
  }
}

TEST(Ollama, RawPromptsGoRoundTheTemplate) {
  Asked raw(false, R"("prompt":"ab","raw":true)"), templated(false, R"("prompt":"ab","system":"s")");
  ASSERT_TRUE(*raw.call && *templated.call);
  EXPECT_EQ((*raw.call)->request->prompt_token_ids, (std::vector<TokenId>{FakeTokenizer::kBos, 'a', 'b'}));
  EXPECT_GT((*templated.call)->request->prompt_token_ids.size(), 20u);
}

TEST(Ollama, WhatIsWrongIsNamed) {
  const auto param = [](bool chat, std::string_view fields) {
    const Asked asked(chat, fields);
    EXPECT_FALSE(*asked.call) << fields;
    return *asked.call ? std::string() : std::string(asked.call->error().param());
  };
  EXPECT_EQ(param(true, R"("messages":[{"role":"tool","content":"x","images":"aGk="}])"),
            "messages.0.images");
  EXPECT_EQ(param(true, R"("messages":[{"role":"user","content":"x","images":["aGk="]}])"),
            "messages.0.images");
  EXPECT_EQ(param(true, R"("messages":[{"role":""}])"), "messages.0.role");
  EXPECT_EQ(param(true, concat(R"("options":{"top_p":7},)", kHi)), "options.top_p");
  EXPECT_EQ(param(true, concat(R"("options":{"mirostat":1},)", kHi)), "options.mirostat");
  EXPECT_EQ(param(true, concat(R"("options":{"typical_p":-0.7},)", kHi)), "options.typical_p");
  EXPECT_EQ(param(false, R"("prompt":"x","context":[1,2])"), "context");
  EXPECT_EQ(param(false, R"("prompt":"x","think":3)"), "think");
  EXPECT_EQ(param(false, R"("prompt":7)"), "prompt");
  EXPECT_EQ(param(false, R"("prompt":"x","logprobs":3)"), "logprobs");
  EXPECT_EQ(param(false, R"("prompt":"x","logprobs":true,"top_logprobs":99)"), "top_logprobs");
}

TEST(Ollama, ListsTheModelWithWhatIsKnownOfIt) {
  TestModel model;
  model.context.facts = {.architecture = "llama", .weight_type = "Q4_1", .weight_bytes = 7};
  for (const ApiRoute& route : ollama_protocol().routes) {
    const auto* handler = std::get_if<AnswerHandler>(&route.handler);
    if (handler == nullptr) continue;
    ApiCall call;
    call.body = R"({"model":"tiny","stream":false})";
    const Result<ApiAnswer> answer = (*handler)(call, model.context);
    ASSERT_TRUE(answer) << route.facts.path;
    const Result<json::value> value = parse_json(answer->body);
    ASSERT_TRUE(value) << route.facts.path;
    if (route.facts.path == "/api/pull") EXPECT_EQ(value->at("status"), "success");
    if (route.facts.path == "/api/version") EXPECT_EQ(value->at("version"), "0.14.0");
    if (route.facts.path == "/api/tags") EXPECT_EQ(value->at("models").at(0).at("name"), "tiny");
    if (route.facts.path == "/api/show") EXPECT_EQ(value->at("model_info").at("llama.context_length"), 100);
  }
}

}  // namespace
}  // namespace pagoda
