// Answers with reasoning and tool calls, whole and streamed, as OpenAI's clients read them.
#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include "api/json.h"
#include "api/openai/request_parser.h"
#include "api/openai/response_builder.h"
#include "api/test_support.h"

namespace pagoda {
namespace {

namespace json = boost::json;

constexpr std::string_view kTools =
    R"("tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}])";
constexpr std::string_view kCall =
    "hm</think>\n\nOk <tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call>";

struct ToolAnswer {
  explicit ToolAnswer(std::string_view fields, std::string_view assistant = "<think>") : model(1000) {
    model.chat_template = *ChatTemplate::parse(
        "{% for m in messages %}{{ m.content }}{% endfor %}{% for t in tools or [] %}{{ t.function.name }}"
        "{% endfor %}\n" +
        std::string(assistant) + "\n");
    model.context.tool_parser = "hermes";
    model.context.reasoning_parser = "qwen3";
    const std::string body =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]," + std::string(fields) + "}";
    auto parsed = parse_call(CallKind::chat, body, {.id = "id", .created = 1}, model.context);
    EXPECT_TRUE(parsed) << parsed.error().message();
    builder.emplace(std::move(parsed->response), model.context);
  }
  // A token in each output.
  void answer(std::string_view text, FinishReason reason = FinishReason::stop) {
    for (const char c : text) add(delta_of(std::string_view(&c, 1)));
    SequenceDelta last;
    last.token_ids = {FakeTokenizer::kEos};
    if (reason != FinishReason::stop) last = delta_of(" ");
    last.finish_reason = reason;
    add(std::move(last), true);
  }
  void add(SequenceDelta delta, bool last = false) {
    RequestOutput output;
    output.deltas.push_back(std::move(delta));
    output.finished = last;
    builder->add(0, std::move(output));
    if (builder->streaming()) stream += builder->take_events();
  }
  json::object choice() { return parse_json(builder->body())->at("choices").at(0).as_object(); }

  TestModel model;
  std::optional<ResponseBuilder> builder;
  std::string stream;
};

TEST(ToolAnswers, AWholeMessage) {
  ToolAnswer call(kTools);
  call.answer(kCall);
  const json::object choice = call.choice();
  EXPECT_EQ(choice.at("finish_reason"), "tool_calls");
  const json::object& message = choice.at("message").as_object();
  EXPECT_EQ(message.at("content"), "Ok");
  EXPECT_EQ(message.at("reasoning"), "hm");
  EXPECT_EQ(message.at("reasoning_content"), "hm");
  const json::array& calls = message.at("tool_calls").as_array();
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0].at("type"), "function");
  EXPECT_EQ(calls[0].at("id").as_string().size(), 9u);
  EXPECT_EQ(calls[0].at("function").at("name"), "f");
  EXPECT_EQ(calls[0].at("function").at("arguments"), "{\"a\": 1}");
  EXPECT_FALSE(calls[0].as_object().contains("index"));
}

TEST(ToolAnswers, ACustomToolIsCalledWithAText) {
  const std::string tools =
      R"("tools":[{"type":"custom","custom":{"name":"say","format":{"type":"grammar","grammar":{"syntax":"regex","definition":"[a-z]+"}}}}])";
  const std::string said =
      "</think><tool_call>{\"name\": \"say\", \"arguments\": {\"input\": \"a\\tb\"}}</tool_call>";
  ToolAnswer whole(tools), stream(tools + R"(,"stream":true)");
  whole.answer(said);
  const json::value call = whole.choice().at("message").at("tool_calls").at(0);
  EXPECT_EQ(call.at("type"), "custom");
  EXPECT_EQ(call.at("custom"), (json::object{{"name", "say"}, {"input", "a\tb"}}));
  stream.answer(said);
  EXPECT_NE(stream.stream.find(R"("type":"custom","custom":{"name":"say","input":"a\tb"})"),
            std::string::npos)
      << stream.stream;
}

TEST(ToolAnswers, UsageTellsTheTokensOfTheReasoning) {
  ToolAnswer call(kTools);
  call.answer("hm</think>ok");
  const json::value usage = parse_json(call.builder->body())->at("usage");
  EXPECT_EQ(usage.at("completion_tokens_details").at("reasoning_tokens"), 10);
}

TEST(ToolAnswers, ContentIsNullWhereThereAreOnlyCalls) {
  ToolAnswer call(kTools, "");
  call.answer("<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>");
  EXPECT_TRUE(call.choice().at("message").at("content").is_null());
}

TEST(ToolAnswers, AStreamJoinsToTheSameMessage) {
  ToolAnswer call(std::string(kTools) + ",\"stream\":true,\"logprobs\":false");
  call.answer(kCall);
  std::string content, reasoning, name, arguments, reason;
  int begun = 0;
  std::string_view rest = call.stream;
  while (!rest.empty()) {
    const std::size_t end = rest.find("\n\n");
    const std::string_view data = rest.substr(6, end - 6);
    rest.remove_prefix(end + 2);
    if (data == "[DONE]") break;
    const json::value event = *parse_json(data);
    const json::object& choice = event.at("choices").at(0).as_object();
    const json::object& delta = choice.at("delta").as_object();
    if (const json::value* text = delta.if_contains("content")) content += text->as_string().c_str();
    if (const json::value* text = delta.if_contains("reasoning")) {
      reasoning += text->as_string().c_str();
      EXPECT_EQ(delta.at("reasoning_content"), *text);
    }
    if (const json::value* calls = delta.if_contains("tool_calls")) {
      for (const json::value& one : calls->as_array()) {
        EXPECT_EQ(one.at("index"), 0);
        arguments += one.at("function").at("arguments").as_string().c_str();
        if (!one.as_object().contains("id")) continue;
        ++begun;
        EXPECT_EQ(one.at("type"), "function");
        name = one.at("function").at("name").as_string().c_str();
      }
    }
    if (!choice.at("finish_reason").is_null()) reason = choice.at("finish_reason").as_string().c_str();
  }
  EXPECT_EQ(content, "Ok");
  EXPECT_EQ(reasoning, "hm");
  EXPECT_EQ(begun, 1);
  EXPECT_EQ(name, "f");
  EXPECT_EQ(arguments, "{\"a\": 1}");
  EXPECT_EQ(reason, "tool_calls");
}

TEST(ToolAnswers, WithoutToolsOrWithToolChoiceNoneTheMarkupStays) {
  for (const std::string& fields :
       {std::string("\"n\":1"), std::string(kTools) + ",\"tool_choice\":\"none\""}) {
    ToolAnswer call(fields, "");
    call.answer("<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>");
    const json::object choice = call.choice();
    EXPECT_EQ(choice.at("message").at("content"),
              "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>");
    EXPECT_FALSE(choice.at("message").as_object().contains("tool_calls"));
    EXPECT_EQ(choice.at("finish_reason"), "stop");
  }
}

TEST(ToolAnswers, OnlyOneCallWhereTheRequestWantsNoParallelOnes) {
  const std::string two =
      "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call><tool_call>{\"name\": \"f\", "
      "\"arguments\": {}}"
      "</tool_call>";
  ToolAnswer both(kTools, "");
  both.answer(two);
  EXPECT_EQ(both.choice().at("message").at("tool_calls").as_array().size(), 2u);
  ToolAnswer one(std::string(kTools) + ",\"parallel_tool_calls\":false", "");
  one.answer(two);
  EXPECT_EQ(one.choice().at("message").at("tool_calls").as_array().size(), 1u);
}

TEST(ToolAnswers, ACallThatIsCutOffIsText) {
  ToolAnswer call(kTools, "");
  call.answer("<tool_call>{\"name\": \"f\"", FinishReason::length);
  const json::object choice = call.choice();
  EXPECT_EQ(choice.at("finish_reason"), "length");
  EXPECT_EQ(choice.at("message").at("content"), "<tool_call>{\"name\": \"f\" ");
}

TEST(ToolAnswers, ReasoningCanBeLeftOut) {
  ToolAnswer call("\"include_reasoning\":false");
  call.answer("hm</think>Ok");
  const json::object message = call.choice().at("message").as_object();
  EXPECT_EQ(message.at("content"), "Ok");
  EXPECT_FALSE(message.contains("reasoning"));
}

TEST(ToolAnswers, ReasoningStaysInTheTextWhereItIsWantedRaw) {
  ToolAnswer call("\"reasoning_format\":\"none\"");
  call.answer("hm</think>Ok");
  const json::object message = call.choice().at("message").as_object();
  EXPECT_EQ(message.at("content"), "hm</think>Ok");
  EXPECT_FALSE(message.contains("reasoning"));
}

// The fake tokenizer's special token <x> means nothing to the format: it is no text, unless asked for.
TEST(ToolAnswers, SpecialTokensAreNoText) {
  for (const bool shown : {false, true}) {
    ToolAnswer call(shown ? "\"skip_special_tokens\":false" : "\"skip_special_tokens\":true", "");
    SequenceDelta delta = delta_of("a");
    delta.token_ids.push_back(FakeTokenizer::kSpecial);
    call.add(std::move(delta));
    call.answer("b");
    EXPECT_EQ(call.choice().at("message").at("content"), shown ? "a<x>b" : "ab");
  }
}

TEST(ToolAnswers, StopStringsEndWhatIsOpen) {
  ToolAnswer call(std::string(kTools) + ",\"stop\":[\"END\"]", "");
  call.answer("a <tool_call>{\"name\": END and more");
  const json::object choice = call.choice();
  EXPECT_EQ(choice.at("message").at("content"), "a <tool_call>{\"name\": ");
  EXPECT_EQ(choice.at("finish_reason"), "stop");
}

}  // namespace
}  // namespace pagoda
