// /v1/messages: bodies as Anthropic's clients send them, answers as they read them.
#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include "api/anthropic/anthropic_protocol.h"
#include "api/anthropic/message_writer.h"
#include "api/anthropic/messages_parser.h"
#include "api/test_support.h"
#include "base/strings.h"

namespace pagoda {
namespace {

namespace json = boost::json;

constexpr std::string_view kHi = R"("messages":[{"role":"user","content":"hi"}])";

std::string body_of(std::string_view fields) {
  return concat(R"({"model":"tiny","max_tokens":5,)", fields, "}");
}

Conversation conversation_of(std::string_view fields) {
  const TestModel model;
  Result<MessagesCall> call = parse_messages_call(body_of(fields), false, model.context);
  EXPECT_TRUE(call) << call.error().message();
  return call ? std::move(call->chat.conversation) : Conversation{};
}

Status refusal(std::string_view body) {
  const TestModel model;
  const Result<MessagesCall> call = parse_messages_call(body, false, model.context);
  EXPECT_FALSE(call);
  return call ? Status() : call.error();
}

TEST(MessagesParser, SystemBlocksAreOneMessageAndCacheControlIsAccepted) {
  const Conversation got = conversation_of(
      R"("system":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},{"type":"text","text":"b"}],)"
      R"("messages":[{"role":"user","content":[{"type":"text","text":"c"}]}])");
  ASSERT_EQ(got.messages.size(), 2u);
  EXPECT_EQ(got.messages[0].role, "system");
  EXPECT_EQ(got.messages[0].content.joined(), "a\nb");
  EXPECT_EQ(got.messages[1].content.joined(), "c");
  EXPECT_TRUE(got.add_generation_prompt);
}

TEST(MessagesParser, TheLineForBillingIsLeftOut) {
  const auto system_of = [](std::string_view system) {
    const Conversation got =
        conversation_of(concat(R"("system":)", system, R"(,"messages":[{"role":"user","content":"c"}])"));
    return got.messages.size() == 2 ? got.messages[0].content.joined() : std::string("none");
  };
  EXPECT_EQ(system_of(R"([{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1; cch=1f;"},)"
                      R"({"type":"text","text":"a"},{"type":"text","text":"b"}])"),
            "a\nb");
  EXPECT_EQ(system_of(R"("x-anthropic-billing-header: cc_version=2.1;\na x-anthropic-billing-header: b")"),
            "a x-anthropic-billing-header: b");
  EXPECT_EQ(system_of(R"("x-anthropic-billing-header: cc_version=2.1;")"), "none");
}

TEST(MessagesParser, AnyInputOfACallIsTakenBack) {
  for (const char* const input : {R"("{\"a\": 1")", "[1]", "null", "7", R"("")"}) {
    const Conversation got = conversation_of(concat(
        R"("messages":[{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"tool_use","id":"t",)",
        R"("name":"f","input":)", input,
        R"(}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t"}]}])"));
    EXPECT_EQ(got.messages.size(), 3u) << input;
  }
}

TEST(MessagesParser, CallsAndTheirResults) {
  const Conversation got = conversation_of(
      R"("tools":[{"name":"f","description":"d","input_schema":{"type":"object"}}],)"
      R"("messages":[{"role":"user","content":"q"},)"
      R"({"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":""},)"
      R"({"type":"text","text":"ok"},{"type":"tool_use","id":"t1","name":"f","input":{"a":1}}]},)"
      R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"r"}]},)"
      R"({"type":"text","text":"and"}]}])");
  ASSERT_EQ(got.messages.size(), 4u);
  EXPECT_EQ(got.messages[1].reasoning, "hm");
  EXPECT_EQ(got.messages[1].content.joined(), "ok");
  ASSERT_EQ(got.messages[1].tool_calls.size(), 1u);
  EXPECT_EQ(json::serialize(got.messages[1].tool_calls[0].shown),
            R"({"id":"t1","type":"function","function":{"name":"f","arguments":{"a":1}}})");
  EXPECT_EQ(got.messages[2].role, "tool");
  EXPECT_EQ(got.messages[2].tool_call_id, "t1");
  EXPECT_EQ(got.messages[2].content.joined(), "r");
  EXPECT_EQ(got.messages[3].content.joined(), "and");
  ASSERT_EQ(got.tools.size(), 1u);
  EXPECT_EQ(got.tools[0].name, "f");
}

TEST(MessagesParser, ToolsOfTheProvidersAreLeftOutAndThoseOfTheClientKnown) {
  const TestModel model;
  const Result<MessagesCall> call = parse_messages_call(
      body_of(concat(
          R"("tools":[{"name":"f","input_schema":{"type":"object"}},)"
          R"({"type":"web_search_20250305","name":"web_search","max_uses":3},)"
          R"({"type":"tool_search_tool_bm25_20251119","name":"tool_search_tool_bm25"},)"
          R"({"type":"bash_20250124","name":"bash"},{"type":"text_editor_20250728","name":"edit"},)"
          R"({"type":"memory_20250818","name":"memory"},{"type":"bash_code_execution_20250825","name":"x"}],)",
          kHi)),
      false, model.context);
  ASSERT_TRUE(call) << call.error().message();
  std::string names;
  for (const ToolSpec& tool : call->chat.conversation.tools) {
    names += tool.name + ";";
    EXPECT_TRUE(tool.parameters.contains("type")) << tool.name;
  }
  EXPECT_EQ(names, "f;bash;edit;memory;");
  EXPECT_EQ(call->chat.warnings.texts().size(), 3u);
}

// vLLM's fields, which Anthropic's clients send as extra ones.
TEST(MessagesParser, SamplingHasVllmsFieldsAsWell) {
  const TestModel model;
  const Result<MessagesCall> call = parse_messages_call(
      body_of(concat(
          R"("min_p":0.2,"repetition_penalty":1.5,"presence_penalty":1,"frequency_penalty":0.5,"seed":4,)",
          R"("best":1,)", kHi)),
      false, model.context);
  ASSERT_TRUE(call) << call.error().message();
  const SamplingParams& sampling = call->chat.sampling;
  EXPECT_EQ(sampling.min_p, 0.2F);
  EXPECT_EQ(sampling.repetition_penalty, 1.5F);
  EXPECT_EQ(sampling.presence_penalty, 1);
  EXPECT_EQ(sampling.frequency_penalty, 0.5F);
  EXPECT_EQ(sampling.seed, 4u);
  EXPECT_EQ(call->chat.warnings.header().find("299 pagoda \"best: "), 0u);
}

TEST(MessagesParser, TextsOfAllBlocksReachTheModel) {
  const Conversation got = conversation_of(
      R"("messages":[{"role":"user","content":[{"type":"document","title":"T","source":{"type":"text","media_type":"text/plain","data":"doc"}},)"
      R"({"type":"document","source":{"type":"content","content":[{"type":"text","text":"inner"}]}},)"
      R"({"type":"search_result","source":"http://s","title":"S","content":[{"type":"text","text":"found"}]}]},)"
      R"({"role":"assistant","content":[{"type":"server_tool_use","id":"s1","name":"web_search","input":{"query":"cats"}},)"
      R"({"type":"web_search_tool_result","tool_use_id":"s1","content":[{"type":"web_search_result","title":"Cats","url":"http://c","encrypted_content":"zz"}]},)"
      R"({"type":"text","text":"So."},{"type":"tool_use","id":"t1","name":"f","input":{}}]},)"
      R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"tool_reference","tool_name":"later"},)"
      R"({"type":"search_result","source":"x","title":"y","content":[{"type":"text","text":"z"}]}]}]}])");
  ASSERT_EQ(got.messages.size(), 5u);
  EXPECT_EQ(got.messages[0].content.joined(), "T\ndoc\ninner\nS\nhttp://s\nfound");
  ASSERT_EQ(got.messages[1].tool_calls.size(), 1u);
  EXPECT_EQ(got.messages[2].role, "tool");
  EXPECT_EQ(got.messages[2].content.joined(), "Cats\nhttp://c");
  EXPECT_EQ(got.messages[3].content.joined(), "So.");
  EXPECT_EQ(got.messages[3].tool_calls.size(), 1u);
  EXPECT_EQ(got.messages[4].content.joined(), "later\ny\nx\nz");
}

TEST(MessagesParser, TheSummaryOfACompactedConversationIsText) {
  const Conversation got = conversation_of(
      R"("messages":[{"role":"assistant","content":[{"type":"compaction","content":"So far."}]},)"
      R"({"role":"user","content":"b"}])");
  ASSERT_EQ(got.messages.size(), 2u);
  EXPECT_EQ(got.messages[0].content.joined(), "So far.");
}

TEST(MessagesParser, NeighbouringTurnsOfTheUserAreOne) {
  const Conversation got =
      conversation_of(R"("messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}])");
  ASSERT_EQ(got.messages.size(), 1u);
  EXPECT_EQ(got.messages[0].content.joined(), "a\nb");
}

TEST(MessagesParser, AnEmptyListOfBlocksIsAnEmptyTurn) {
  const Conversation got = conversation_of(R"("messages":[{"role":"user","content":[]}])");
  ASSERT_EQ(got.messages.size(), 1u);
  EXPECT_EQ(got.messages[0].role, "user");
  EXPECT_EQ(got.messages[0].content.form, Content::Form::text);
  EXPECT_EQ(got.messages[0].content.joined(), "");
  const Conversation after = conversation_of(
      R"("messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":[]}])");
  ASSERT_EQ(after.messages.size(), 3u);
  EXPECT_TRUE(after.add_generation_prompt) << "the assistant's turn is over";
}

TEST(MessagesParser, WhatTheAssistantHasBegunIsGoneOnWith) {
  const Conversation got =
      conversation_of(R"("messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}])");
  EXPECT_TRUE(got.continue_final_message);
  EXPECT_FALSE(got.add_generation_prompt);
}

TEST(MessagesParser, ThinkingIsForTheTemplate) {
  EXPECT_EQ(conversation_of(concat(R"("thinking":{"type":"enabled","budget_tokens":1024},)", kHi))
                .template_kwargs.at("enable_thinking"),
            true);
  EXPECT_EQ(conversation_of(concat(R"("thinking":{"type":"disabled"},)", kHi))
                .template_kwargs.at("enable_thinking"),
            false);
  EXPECT_EQ(conversation_of(concat(R"("thinking":{"type":"between_tools"},)", kHi))
                .template_kwargs.at("enable_thinking"),
            true);
  EXPECT_TRUE(conversation_of(kHi).template_kwargs.empty());
}

// A budget is held where the reasoning is told apart and can be held, and is no reason to refuse elsewhere.
TEST(MessagesParser, ABudgetOfThinkingIsHeldWhereItCanBe) {
  const TestModel model;
  const Result<MessagesCall> call = parse_messages_call(
      body_of(concat(R"("thinking":{"type":"enabled","budget_tokens":1024},)", kHi)), false, model.context);
  ASSERT_TRUE(call) << call.error().message();
  EXPECT_EQ(call->chat.reasoning.budget, 1024);
  AnswerParserOptions parser;
  parser.reasoning_parser = "qwen3";
  EXPECT_EQ(thinking_budget(call->chat.reasoning, {}, model.context, parser), std::nullopt)
      << "no grammars here";
}

// Claude Code looks for these words, and nothing behind them.
TEST(MessagesProtocol, APromptThatIsTooLongIsToldInAnthropicsWords) {
  const TestModel model(20);
  ApiCall call;
  call.body = body_of(concat(R"("messages":[{"role":"user","content":")", std::string(30, 'x'), R"("}])"));
  for (const ApiRoute& route : anthropic_protocol().routes) {
    if (route.facts.path != "/v1/messages") continue;
    const auto made = std::get<GenerationHandler>(route.handler)(call, model.context);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().message(), "prompt is too long: 48 tokens > 20 maximum");
  }
}

TEST(MessagesParser, WhatIsWrongIsNamed) {
  const auto param = [](std::string_view fields) { return std::string(refusal(body_of(fields)).param()); };
  EXPECT_EQ(refusal(R"({"max_tokens":5,"messages":[]})").param(), "model");
  EXPECT_EQ(refusal(R"({"model":"gpt","max_tokens":5})").reason(), "model_not_found");
  EXPECT_EQ(refusal(concat(R"({"model":"tiny",)", kHi, "}")).param(), "max_tokens");
  EXPECT_EQ(param(R"("messages":[])"), "messages");
  EXPECT_EQ(param(R"("messages":[{"role":"user"}])"), "messages.0.content");
  EXPECT_EQ(param(R"("messages":[{"role":"robot","content":"x"}])"), "messages.0.role");
  EXPECT_EQ(param(R"("messages":[{"role":"user","content":[{"type":"image","source":{}}]}])"),
            "messages.0.content.0.type");
  EXPECT_EQ(param(R"("messages":[{"role":"user","content":[{"type":"tool_result","content":"x"}]}])"),
            "messages.0.content.0.tool_use_id");
  EXPECT_EQ(
      param(concat(
          R"("tools":[{"type":"web_search_20250305","name":"w"}],"tool_choice":{"type":"tool","name":"w"},)",
          kHi)),
      "tool_choice");
  EXPECT_EQ(
      param(R"("messages":[{"role":"user","content":[{"type":"document","source":{"type":"base64"}}]}])"),
      "messages.0.content.0.source.type");
  EXPECT_EQ(param(concat(R"("tools":[{"name":"f"}],)", kHi)), "tools.0.input_schema");
  EXPECT_EQ(param(concat(R"("system":3,)", kHi)), "system");
  EXPECT_EQ(param(concat(R"("temperature":"x",)", kHi)), "temperature");
}

struct Answered {
  explicit Answered(std::string_view fields) : model(1000) {
    model.context.tool_parser = "hermes";
    model.context.reasoning_parser = "qwen3";
    ApiCall call;
    call.body = body_of(fields);
    call.id = "1";
    auto made = std::get<GenerationHandler>(anthropic_protocol().routes[0].handler)(call, model.context);
    EXPECT_TRUE(made) << made.error().message();
    answer = std::move(made->answer);
  }
  void add(SequenceDelta delta, bool last = false) {
    RequestOutput output;
    output.deltas.push_back(std::move(delta));
    output.finished = last;
    output.num_cached_tokens = 2;
    answer->add(0, std::move(output));
    answer->take(out, std::size_t{1} << 20);
  }
  void say(std::string_view text, FinishReason reason = FinishReason::stop) {
    for (const char c : text) add(delta_of(std::string_view(&c, 1)));
    SequenceDelta end;
    end.token_ids = {FakeTokenizer::kEos};
    end.finish_reason = reason;
    add(std::move(end), true);
  }
  // {"message_start …", …}: the type of each event, and of the block it begins.
  std::string events() const {
    std::string types;
    for (std::size_t at = 0; (at = out.find("data: ", at)) != std::string::npos;) {
      const std::size_t end = out.find("\n\n", at);
      const json::value data = *parse_json(std::string_view(out).substr(at + 6, end - at - 6));
      types.append(data.at("type").as_string()).append(" ");
      if (const json::value* block = data.as_object().if_contains("content_block"))
        types.append("<").append(block->at("type").as_string()).append("> ");
      if (const json::value* delta = data.as_object().if_contains("delta"))
        for (const char* key : {"text", "thinking", "partial_json"})
          if (const json::value* text = delta->as_object().if_contains(key)) pieces.append(text->as_string());
      at = end;
    }
    return types;
  }

  TestModel model;
  std::unique_ptr<AnswerWriter> answer;
  std::string out;
  mutable std::string pieces;
};

constexpr std::string_view kTools = R"("tools":[{"name":"f","input_schema":{"type":"object"}}],)";
constexpr std::string_view kCall =
    "<think>hm</think>Ok<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call>";

TEST(MessageWriter, AWholeMessage) {
  Answered answered(concat(kTools, kHi));
  answered.say(kCall);
  const json::value got = *parse_json(answered.out);
  EXPECT_EQ(got.at("id"), "msg_1");
  EXPECT_EQ(got.at("stop_reason"), "tool_use");
  EXPECT_TRUE(got.at("stop_sequence").is_null());
  const json::array& content = got.at("content").as_array();
  ASSERT_EQ(content.size(), 3u);
  EXPECT_EQ(content[0].at("thinking"), "hm");
  EXPECT_FALSE(content[0].at("signature").as_string().empty());
  EXPECT_EQ(content[1].at("text"), "Ok");
  EXPECT_EQ(content[2].at("name"), "f");
  EXPECT_EQ(content[2].at("input").at("a"), 1);
  const json::value& usage = got.at("usage");
  EXPECT_EQ(usage.at("cache_read_input_tokens"), 2);
  EXPECT_EQ(usage.at("output_tokens"), static_cast<std::int64_t>(kCall.size()) + 1);
}

TEST(MessageWriter, AStreamHasOneBlockAfterTheOther) {
  Answered answered(concat(R"("stream":true,)", kTools, kHi));
  answered.say(kCall);
  const std::string types = answered.events();
  const auto count = [&types](std::string_view what) {
    std::size_t n = 0;
    for (std::size_t at = 0; (at = types.find(what, at)) != std::string::npos; ++at) ++n;
    return n;
  };
  EXPECT_TRUE(types.starts_with("message_start ping content_block_start <thinking> content_block_delta "))
      << types;
  EXPECT_TRUE(types.ends_with("content_block_stop message_delta message_stop ")) << types;
  EXPECT_EQ(count("content_block_start"), 3u);
  EXPECT_EQ(count("content_block_stop"), 3u);
  EXPECT_EQ(answered.pieces, "hmOk{\"a\": 1}");
}

TEST(MessageWriter, WhyItEnded) {
  const auto reason = [](std::string_view fields, std::string_view text, FinishReason finish) {
    Answered answered(concat(fields, kHi));
    answered.say(text, finish);
    const json::value got = *parse_json(answered.out);
    return concat(std::string_view(got.at("stop_reason").as_string()), " ",
                  json::serialize(got.at("stop_sequence")));
  };
  EXPECT_EQ(reason("", "a", FinishReason::stop), "end_turn null");
  EXPECT_EQ(reason("", "a", FinishReason::length), "max_tokens null");
  EXPECT_EQ(reason(R"("stop_sequences":["b"],)", "ab", FinishReason::stop), "stop_sequence \"b\"");
}

TEST(MessageWriter, AStreamThatFailsEndsWithItsError) {
  Answered answered(concat(R"("stream":true,)", kHi));
  answered.add(delta_of("a"));
  answered.answer->fail(unavailable("The server is shutting down."));
  answered.answer->take(answered.out, 1000);
  EXPECT_TRUE(answered.out.ends_with(
      "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"The "
      "server "
      "is shutting down.\"}}\n\n"))
      << answered.out;
}

}  // namespace
}  // namespace pagoda
