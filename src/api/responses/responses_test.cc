// /v1/responses: bodies as OpenAI's clients send them, answers and events as they read them, and what is
// kept.
#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include "api/answer_store.h"
#include "api/json.h"
#include "api/responses/input_items.h"
#include "api/responses/response_writer.h"
#include "api/responses/responses_parser.h"
#include "api/responses/responses_protocol.h"
#include "api/test_support.h"
#include "base/strings.h"

namespace pagoda {
namespace {

namespace json = boost::json;

struct Kept : TestModel {
  Kept() : TestModel(2000), store(std::size_t{1} << 20) {
    context.answers = &store;
    context.tool_parser = "hermes";
    context.reasoning_parser = "qwen3";
  }
  Result<ResponsesCall> parse(std::string_view fields, std::string_view owner = "") {
    return parse_responses_call(concat(R"({"model":"tiny",)", fields, "}"), owner, context);
  }
  const ApiRoute& route(std::string_view method, std::string_view path) const {
    for (const ApiRoute& row : responses_protocol().routes)
      if (row.facts.method == method && row.facts.path == path) return row;
    ADD_FAILURE() << "no route " << path;
    return responses_protocol().routes.front();
  }
  Result<ApiAnswer> ask(std::string_view method, std::string parameter, std::string owner = "") {
    ApiCall call;
    call.parameter = std::move(parameter);
    call.owner = std::move(owner);
    return std::get<AnswerHandler>(route(method, "/v1/responses/{response_id}").handler)(call, context);
  }
  AnswerStore store;
};

struct Answered {
  Answered(Kept& kept, std::string_view fields, std::string id = "1", std::string owner = "") {
    ApiCall call;
    call.body = concat(R"({"model":"tiny",)", fields, "}");
    call.id = std::move(id);
    call.created = 5;
    call.owner = std::move(owner);
    made.emplace(
        std::get<GenerationHandler>(kept.route("POST", "/v1/responses").handler)(call, kept.context));
    EXPECT_TRUE(*made) << made->error().message();
  }
  void add(SequenceDelta delta, bool last = false) {
    RequestOutput output;
    output.deltas.push_back(std::move(delta));
    output.finished = last;
    output.num_cached_tokens = 2;
    (*made)->answer->add(0, std::move(output));
    (*made)->answer->take(out, std::size_t{1} << 20);
  }
  void say(std::string_view text, FinishReason reason = FinishReason::stop) {
    const bool logprobs = (*made)->requests.front().sampling.logprobs.has_value();
    for (const char c : text) {
      SequenceDelta delta = delta_of(std::string_view(&c, 1));
      if (logprobs) delta.logprobs = {logprobs_of(c, -0.5f, {{.token = 'z', .logprob = -1.5f, .rank = 2}})};
      add(std::move(delta));
    }
    SequenceDelta end;
    if (logprobs) end.logprobs = {logprobs_of(FakeTokenizer::kEos, -0.25f)};
    end.token_ids = {FakeTokenizer::kEos};
    end.finish_reason = reason;
    add(std::move(end), true);
  }
  std::vector<json::value> events() const {
    std::vector<json::value> all;
    for (std::size_t at = 0; (at = out.find("data: ", at)) != std::string::npos;) {
      const std::size_t end = out.find("\n\n", at);
      all.push_back(*parse_json(std::string_view(out).substr(at + 6, end - at - 6)));
      at = end;
    }
    return all;
  }
  std::optional<Result<ApiGeneration>> made;
  std::string out;
};

constexpr std::string_view kTools =
    R"("tools":[{"type":"function","name":"f","parameters":{"type":"object"}}],)";
constexpr std::string_view kCall =
    "<think>hm</think>Ok<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call>";

TEST(ResponsesParser, ItemsBecomeTurns) {
  Kept kept;
  const Result<ResponsesCall> call = kept.parse(
      R"("instructions":"be","input":[{"role":"user","content":"q"},)"
      R"({"type":"reasoning","id":"r","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]},)"
      R"({"type":"message","role":"assistant","content":[{"type":"output_text","text":"ok","annotations":[]}]},)"
      R"({"type":"function_call","call_id":"c1","name":"f","arguments":"{\"a\":1}"},)"
      R"({"type":"function_call_output","call_id":"c1","output":"r"}])");
  ASSERT_TRUE(call) << call.error().message();
  const std::vector<ChatMessage>& got = call->chat.conversation.messages;
  ASSERT_EQ(got.size(), 4u);
  EXPECT_EQ(got[0].role, "system");
  EXPECT_EQ(got[1].content.joined(), "q");
  EXPECT_EQ(got[2].reasoning, "hm");
  EXPECT_EQ(got[2].content.joined(), "ok");
  ASSERT_EQ(got[2].tool_calls.size(), 1u);
  EXPECT_EQ(json::serialize(got[2].tool_calls[0].shown),
            R"({"id":"c1","type":"function","function":{"name":"f","arguments":{"a":1}}})");
  EXPECT_EQ(got[3].role, "tool");
  EXPECT_EQ(got[3].tool_call_id, "c1");
}

TEST(ResponsesParser, WhatIsWrongIsNamed) {
  Kept kept;
  const auto param = [&kept](std::string_view fields) {
    const Result<ResponsesCall> call = kept.parse(fields);
    EXPECT_FALSE(call) << fields;
    return call ? std::string() : std::string(call.error().param());
  };
  EXPECT_EQ(param(R"("store":true)"), "input");
  EXPECT_EQ(param(R"("input":3)"), "input");
  EXPECT_EQ(param(R"("input":[{"role":"robot","content":"x"}])"), "input.0.role");
  EXPECT_EQ(param(R"("input":[{"role":"user","content":[{"type":"input_image"}]}])"),
            "input.0.content.0.type");
  EXPECT_EQ(param(R"("input":[{"type":"no_such_item"}])"), "input.0.type");
  EXPECT_EQ(param(R"("input":"x","tools":[{"type":"namespace","name":"n"}])"), "tools.0.tools");
  EXPECT_EQ(param(R"("input":"x","tools":[{"type":"namespace","name":"n","tools":[{"type":"namespace"}]}])"),
            "tools.0.tools.0.type");
  EXPECT_EQ(param(R"("input":"x","tools":[{"type":"functon","name":"f"}])"), "tools.0.type");
  EXPECT_EQ(param(R"("input":"x","tools":[{"type":"web_search"}],"tool_choice":{"type":"web_search"})"),
            "tool_choice.type");
  EXPECT_EQ(param(R"("input":"x","tools":[{"type":"web_search"}],"tool_choice":"required")"), "tool_choice");
  EXPECT_EQ(param(R"("input":[{"type":"function_call","call_id":"c","arguments":"["}])"), "input.0.name");
  EXPECT_EQ(param(R"("input":"x","previous_response_id":"resp_no")"), "previous_response_id");
  EXPECT_EQ(param(R"("input":"x","truncation":"middle")"), "truncation");
  EXPECT_EQ(param(R"("input":"x","max_output_tokens":0)"), "max_output_tokens");
  EXPECT_EQ(param(R"("input":"x","background":true)"), "background");
  EXPECT_EQ(param(R"("input":"x","text":{"format":{"type":"json_schema","name":"x","schema":1}})"),
            "text.format.schema");
}

// As Codex declares them: a namespace, a tool of one text, tools of the provider's.
constexpr std::string_view kAgentTools =
    R"("tools":[{"type":"function","name":"team__close","parameters":{"type":"object"}},)"
    R"({"type":"namespace","name":"team","description":"Agents.","tools":[)"
    R"({"type":"function","name":"close","description":"Closes one.","parameters":{"type":"object"}}]},)"
    R"({"type":"custom","name":"apply_patch","description":"Edits.","format":{"type":"grammar","syntax":"lark","definition":"start: \"a\""}},)"
    R"({"type":"web_search","external_web_access":false},{"type":"local_shell"}],)";

TEST(ResponsesParser, GroupsAreFlattenedAndTextsAreAnArgument) {
  Kept kept;
  const Result<ResponsesCall> call = kept.parse(concat(kAgentTools, R"("input":"x")"));
  ASSERT_TRUE(call) << call.error().message();
  const std::vector<ToolSpec>& tools = call->chat.conversation.tools;
  ASSERT_EQ(tools.size(), 3u);
  EXPECT_EQ(tools[0].name, "team__close");
  EXPECT_EQ(tools[1].name, "team__close_") << "its name is taken";
  EXPECT_EQ(tools[1].shown.at("function").at("name"), "team__close_");
  EXPECT_EQ(tools[1].shown.at("function").at("description"), "Agents.\n\nCloses one.");
  EXPECT_EQ(tools[2].parameters.at("required"), json::array{"input"});
  EXPECT_TRUE(tools[2].shown.at("function").at("description").as_string().ends_with("start: \"a\""));
  EXPECT_EQ(call->chat.answer.origins.size(), 2u);
  EXPECT_EQ(call->chat.answer.origins.at("team__close_"), (ToolOrigin{.group = "team", .name = "close"}));
  ASSERT_EQ(call->chat.warnings.texts().size(), 2u);
  EXPECT_EQ(call->chat.warnings.texts()[0],
            "tools.3.type: a tool of the type 'web_search' is not run by this server and is left out");
  EXPECT_EQ(call->shown.at("tools").as_array().size(), 5u) << "shown as they were declared";
}

TEST(ResponsesParser, CallsOfThePastHaveTheNamesThatAreShown) {
  Kept kept;
  const Result<ResponsesCall> call = kept.parse(
      concat(kAgentTools,
             R"("input":[{"role":"user","content":"q"},)"
             R"({"type":"function_call","call_id":"1","namespace":"team","name":"close","arguments":"{}"},)"
             R"({"type":"function_call_output","call_id":"1","output":"done"},)"
             R"({"type":"custom_tool_call","call_id":"2","name":"apply_patch","input":"a\nb"},)"
             R"({"type":"custom_tool_call_output","call_id":"2","output":"ok"},)"
             R"({"type":"function_call","call_id":"3","namespace":"gone","name":"f","arguments":"{}"}])"));
  ASSERT_TRUE(call) << call.error().message();
  const std::vector<ChatMessage>& got = call->chat.conversation.messages;
  ASSERT_EQ(got.size(), 6u);
  EXPECT_EQ(got[1].tool_calls.at(0).shown.at("function").at("name"), "team__close_");
  EXPECT_EQ(got[3].tool_calls.at(0).shown.at("function").at("arguments"), (json::object{{"input", "a\nb"}}));
  EXPECT_EQ(got[5].tool_calls.at(0).shown.at("function").at("name"), "gone__f");
}

TEST(ResponsesParser, OtherToolsItemsAreCallsAndResults) {
  Kept kept;
  const Result<ResponsesCall> call = kept.parse(
      R"("input":[{"role":"user","content":"q"},)"
      R"({"type":"local_shell_call","call_id":"1","action":{"type":"exec","command":["ls"]}},)"
      R"({"type":"local_shell_call_output","id":"1","output":"a.txt"},)"
      R"({"type":"shell_call","call_id":"2","action":{"commands":["pwd"]}},)"
      R"({"type":"shell_call_output","call_id":"2","output":[{"stdout":"/home","stderr":"","outcome":{"type":"exit","exit_code":0}}]},)"
      R"({"type":"mcp_call","id":"m","server_label":"s","name":"look","arguments":"{\"a\":1}","output":"seen"},)"
      R"({"type":"web_search_call","id":"w","status":"completed","action":{"type":"search","query":"cats"}},)"
      R"({"type":"tool_search_call","call_id":"t","arguments":{"q":"x"}},)"
      R"({"type":"tool_search_output","call_id":"t","tools":[{"type":"function","name":"found","parameters":{}}]},)"
      R"({"type":"additional_tools","role":"developer","tools":[{"type":"function","name":"more","parameters":{}}]},)"
      R"({"type":"compaction","encrypted_content":"zz"},{"type":"image_generation_call","result":"AA=="}])");
  ASSERT_TRUE(call) << call.error().message();
  const std::vector<ChatMessage>& got = call->chat.conversation.messages;
  std::string all;
  for (const ChatMessage& message : got) {
    all += concat(message.role, ":", message.content.joined(), ";");
    for (const ToolCall& made : message.tool_calls) all += json::serialize(made.shown.at("function")) + ";";
  }
  for (const std::string_view text :
       {R"({"name":"local_shell","arguments":{"type":"exec","command":["ls"]}})", "tool:a.txt;",
        R"({"name":"shell","arguments":{"commands":["pwd"]}})", "/home",
        R"({"name":"look","arguments":{"a":1}})", "tool:seen;", "cats", "tool:found;"})
    EXPECT_NE(all.find(text), std::string::npos) << text << " in " << all;
  ASSERT_EQ(call->chat.conversation.tools.size(), 2u);
  EXPECT_EQ(call->chat.conversation.tools[0].name, "found");
  EXPECT_EQ(call->chat.conversation.tools[1].name, "more");
  EXPECT_EQ(call->chat.warnings.texts().size(), 2u);
}

TEST(ResponsesParser, AllowedToolsAreThoseShown) {
  Kept kept;
  const auto names = [&](std::string_view choice) {
    const Result<ResponsesCall> call =
        kept.parse(concat(kAgentTools, R"("input":"x","tool_choice":)", choice));
    EXPECT_TRUE(call) << call.error().message();
    std::string out;
    if (!call) return out;
    for (const ToolSpec& tool : call->chat.conversation.tools) out += tool.name + ";";
    return out + (call->chat.choice.forced() ? concat("forced ", call->chat.choice.name) : "");
  };
  EXPECT_EQ(
      names(
          R"({"type":"allowed_tools","mode":"auto","tools":[{"type":"custom","name":"apply_patch"},{"type":"web_search"}]})"),
      "apply_patch;");
  EXPECT_EQ(
      names(R"({"type":"allowed_tools","mode":"required","tools":[{"type":"namespace","name":"team"}]})"),
      "team__close_;forced ");
  EXPECT_EQ(names(R"({"type":"function","namespace":"team","name":"close"})"),
            "team__close;team__close_;apply_patch;forced team__close_");
  EXPECT_EQ(names(R"({"type":"custom","name":"apply_patch"})"),
            "team__close;team__close_;apply_patch;forced apply_patch");
}

TEST(ResponsesParser, AnEmptyListIsAConversationWithoutWords) {
  Kept kept;
  const Result<ResponsesCall> call = kept.parse(R"("input":[],"instructions":"be")");
  ASSERT_TRUE(call) << call.error().message();
  ASSERT_EQ(call->chat.conversation.messages.size(), 2u);
  EXPECT_EQ(call->chat.conversation.messages[1].role, "user");
}

TEST(ResponseWriter, CallsComeAsTheirToolsWereDeclared) {
  Kept kept;
  const std::string_view said =
      "<tool_call>{\"name\": \"team__close_\", \"arguments\": {\"id\": 1}}</tool_call>"
      "<tool_call>{\"name\": \"apply_patch\", \"arguments\": {\"input\": \"a\\n\\\"b\\u00e9\"}}</tool_call>";
  Answered whole(kept, concat(kAgentTools, R"("input":"q")")),
      stream(kept, concat(kAgentTools, R"("input":"q","stream":true)"), "1");
  EXPECT_TRUE((*whole.made)->warnings.header().starts_with("299 pagoda \"tools.3.type: "));
  whole.say(said);
  stream.say(said);
  const json::array output = parse_json(whole.out)->at("output").as_array();
  ASSERT_EQ(output.size(), 2u);
  EXPECT_EQ(output[0].at("type"), "function_call");
  EXPECT_EQ(output[0].at("name"), "close");
  EXPECT_EQ(output[0].at("namespace"), "team");
  EXPECT_EQ(output[1].at("type"), "custom_tool_call");
  EXPECT_EQ(output[1].at("input"), "a\n\"b\u00e9");
  EXPECT_FALSE(output[1].as_object().contains("namespace"));
  std::string input;
  for (const json::value& event : stream.events()) {
    if (event.at("type") == "response.custom_tool_call_input.delta") input += event.at("delta").as_string();
    if (event.at("type") == "response.custom_tool_call_input.done") {
      EXPECT_EQ(event.at("input").as_string(), std::string_view(input));
    }
  }
  EXPECT_EQ(input, "a\n\"b\u00e9");
  EXPECT_EQ(stream.events().back().at("response").at("output"), output);
}

TEST(ResponseWriter, AWholeResponse) {
  Kept kept;
  Answered answered(kept, concat(kTools, R"("input":"q","metadata":{"k":"v"})"));
  answered.say(kCall);
  const json::value got = *parse_json(answered.out);
  EXPECT_EQ(got.at("id"), "resp_1");
  EXPECT_EQ(got.at("status"), "completed");
  EXPECT_EQ(got.at("metadata").at("k"), "v");
  const json::array& output = got.at("output").as_array();
  ASSERT_EQ(output.size(), 3u);
  EXPECT_EQ(output[0].at("content").at(0).at("text"), "hm");
  EXPECT_EQ(output[1].at("content").at(0).at("text"), "Ok");
  EXPECT_EQ(output[2].at("arguments"), "{\"a\": 1}");
  const json::value& usage = got.at("usage");
  EXPECT_EQ(usage.at("output_tokens"), static_cast<std::int64_t>(kCall.size()) + 1);
  EXPECT_GT(usage.at("output_tokens_details").at("reasoning_tokens").as_int64(), 2);
}

TEST(ResponseWriter, AStreamEndsWithTheWholeResponse) {
  Kept kept;
  Answered whole(kept, concat(kTools, R"("input":"q")")),
      stream(kept, concat(kTools, R"("input":"q","stream":true)"), "1");
  whole.say(kCall);
  stream.say(kCall);
  const std::vector<json::value> events = stream.events();
  ASSERT_GT(events.size(), 10u);
  EXPECT_EQ(events[0].at("type"), "response.created");
  EXPECT_EQ(events[1].at("type"), "response.in_progress");
  EXPECT_EQ(events.back().at("type"), "response.completed");
  json::value last = events.back().at("response");
  last.as_object()["store"] = true;
  EXPECT_EQ(last, *parse_json(whole.out));
  std::string text;
  int added = 0, done = 0;
  for (std::size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].at("sequence_number"), static_cast<std::int64_t>(i));
    const json::string& type = events[i].at("type").as_string();
    if (type.ends_with("delta")) text.append(events[i].at("delta").as_string());
    added += type == "response.output_item.added";
    done += type == "response.output_item.done";
  }
  EXPECT_EQ(text, "hmOk{\"a\": 1}");
  EXPECT_EQ(added, 3);
  EXPECT_EQ(done, 3);
}

TEST(ResponseWriter, WhyItEnded) {
  Kept kept;
  Answered cut(kept, R"("input":"q")");
  cut.say("<think></think>ab", FinishReason::length);
  const json::value got = *parse_json(cut.out);
  EXPECT_EQ(got.at("status"), "incomplete");
  EXPECT_EQ(got.at("incomplete_details").at("reason"), "max_output_tokens");
  Answered failed(kept, R"("input":"q","stream":true)", "2");
  failed.add(delta_of("a"));
  (*failed.made)->answer->fail(unavailable("Gone."));
  (*failed.made)->answer->take(failed.out, 1000);
  const json::value last = failed.events().back();
  EXPECT_EQ(last.at("type"), "response.failed");
  EXPECT_EQ(last.at("response").at("error").at("message"), "Gone.");
}

TEST(StoredResponses, CanBeGoneOnWithRetrievedAndDeletedByTheirOwner) {
  Kept kept;
  Answered first(kept, R"("instructions":"not carried","input":"q")", "1", "me");
  first.say("<think></think>an answer");
  const Result<ResponsesCall> next = kept.parse(R"("previous_response_id":"resp_1","input":"more")", "me");
  ASSERT_TRUE(next) << next.error().message();
  const std::vector<ChatMessage>& messages = next->chat.conversation.messages;
  ASSERT_EQ(messages.size(), 3u);
  EXPECT_EQ(messages[0].content.joined(), "q");
  EXPECT_EQ(messages[1].content.joined(), "an answer");
  EXPECT_EQ(messages[2].content.joined(), "more");

  // Items by their ids, those that it took and those that it gave.
  for (const char* const reference : {R"({"type":"item_reference","id":"%"})", R"({"id":"%"})"}) {
    const auto refer = [&](std::string_view id) {
      std::string item = reference;
      return item.replace(item.find('%'), 1, id);
    };
    const std::string given(
        first.events().empty() ? (*parse_json(first.out)).at("output").at(0).at("id").as_string() : "");
    const Result<ResponsesCall> by_id =
        kept.parse(concat(R"("input":[)", refer("item_0_resp_1"), ",", refer(given),
                          R"(,{"role":"user","content":"more"}])"),
                   "me");
    ASSERT_TRUE(by_id) << by_id.error().message();
    const std::vector<ChatMessage>& told = by_id->chat.conversation.messages;
    ASSERT_EQ(told.size(), 3u);
    EXPECT_EQ(told[0].content.joined(), "q");
    EXPECT_EQ(told[2].content.joined(), "more");
    for (const char* const unknown : {"item_7_resp_1", "msg_x", "msg_0_resp_2", ""})
      for (const char* const owner : {"me", "other"}) {
        const Result<ResponsesCall> none = kept.parse(concat(R"("input":[)", refer(unknown), "]"), owner);
        ASSERT_FALSE(none) << unknown;
        EXPECT_EQ(none.error().code(), StatusCode::not_found);
        EXPECT_NE(none.error().message().find(concat("Item with id '", unknown, "' not found.")),
                  std::string::npos);
      }
    EXPECT_FALSE(kept.parse(concat(R"("input":[)", refer(given), "]"), "other"));
  }

  EXPECT_FALSE(kept.parse(R"("previous_response_id":"resp_1","input":"more")", "other"));
  EXPECT_FALSE(kept.ask("GET", "resp_1", "other"));
  EXPECT_EQ(kept.ask("GET", "resp_1", "me")->body, first.out);
  const json::value items = *parse_json(kept.ask("GET", "resp_1/input_items", "me")->body);
  EXPECT_EQ(items.at("data").at(0).at("content").at(0).at("text"), "q");
  EXPECT_FALSE(kept.ask("DELETE", "resp_1", "other"));
  EXPECT_TRUE(kept.ask("DELETE", "resp_1", "me"));
  EXPECT_FALSE(kept.ask("GET", "resp_1", "me"));
}

TEST(StoredResponses, NotWithoutStore) {
  Kept kept;
  Answered first(kept, R"("input":"q","store":false)");
  first.say("a");
  EXPECT_FALSE(kept.ask("GET", "resp_1"));
  EXPECT_EQ(kept.store.bytes(), 0u);
}

struct NoDetached final : DetachedCalls {
  bool cancel(std::string_view id) override {
    cancelled = id;
    return true;
  }
  std::string cancelled;
};

TEST(StoredResponses, InTheBackgroundAreInProgressUntilTheyEndOrAreCancelled) {
  Kept kept;
  NoDetached detached;
  kept.context.detached = &detached;
  Answered one(kept, R"("input":"q","background":true)"), two(kept, R"("input":"q","background":true)", "2");
  ASSERT_TRUE((*one.made)->at_once);
  EXPECT_EQ(parse_json(kept.ask("GET", "resp_1")->body)->at("status"), "in_progress");
  one.say("<think></think>ab");
  const json::value ended = *parse_json(kept.ask("GET", "resp_1")->body);
  EXPECT_EQ(ended.at("status"), "completed");
  EXPECT_EQ(ended.at("output").at(0).at("content").at(0).at("text"), "ab");
  EXPECT_EQ(parse_json(kept.ask("POST", "resp_2/cancel")->body)->at("status"), "cancelled");
  EXPECT_EQ(detached.cancelled, "resp_2");
  two.say("late");
  EXPECT_EQ(parse_json(kept.ask("GET", "resp_2")->body)->at("status"), "cancelled");
  kept.store.check_invariants();
}

// A background answer is streamed from its beginning, from its middle, and after its end.
TEST(StoredResponses, AStreamInTheBackgroundIsFollowed) {
  Kept kept;
  NoDetached detached;
  kept.context.detached = &detached;
  const auto follow = [&](std::string query) {
    ApiCall call;
    call.parameter = "resp_1";
    call.query = std::move(query);
    return std::get<AnswerHandler>(kept.route("GET", "/v1/responses/{response_id}").handler)(call,
                                                                                             kept.context);
  };
  std::string whole, rest;
  {
    Answered one(kept, R"("input":"q","background":true,"stream":true)");
    ASSERT_TRUE((*one.made)->follow);
    const auto reader = (*one.made)->follow->follow(0, [] {});
    (*one.made)->answer->take(one.out, 1000);
    EXPECT_TRUE(reader->take(whole, 100'000));
    EXPECT_NE(whole.find("response.created"), std::string::npos);
    one.say("<think></think>ab");
    EXPECT_EQ(one.out, "") << "nobody but the log is told";
    while (reader->take(whole, 100'000)) {
    }
    Answered plain(kept, R"("input":"q","stream":true)", "1x");
    plain.say("<think></think>ab");
    one.out = whole;
    ASSERT_EQ(one.events().size(), plain.events().size());
    for (std::size_t i = 0; i < plain.events().size(); ++i) {
      EXPECT_EQ(one.events()[i].at("sequence_number"), i);
      EXPECT_EQ(one.events()[i].at("type"), plain.events()[i].at("type"));
    }
  }
  Result<ApiAnswer> later = follow("stream=true&starting_after=3");
  ASSERT_TRUE(later && later->follow);
  while (later->follow->follow(later->first_event, [] {})->take(rest, 1 << 20)) {
  }
  EXPECT_TRUE(rest.starts_with("event: ") && whole.ends_with(rest));
  EXPECT_NE(rest.find("\"sequence_number\":4"), std::string::npos);
  EXPECT_FALSE(follow("stream=true&starting_after=x"));
  EXPECT_EQ(parse_json(follow("include=x")->body)->at("status"), "completed");
  // One that is given up ends, too.
  std::string cut;
  std::unique_ptr<AnswerLog::Reader> reader;
  {
    Answered two(kept, R"("input":"q","background":true,"stream":true)", "2");
    reader = (*two.made)->follow->follow(0, [] {});
    EXPECT_TRUE(kept.ask("POST", "resp_2/cancel"));
  }
  EXPECT_FALSE(reader->take(cut, 1000));
  Answered whole_one(kept, R"("input":"q")", "3");
  whole_one.say("a");
  ApiCall call;
  call.parameter = "resp_3";
  call.query = "stream=true";
  EXPECT_FALSE(
      std::get<AnswerHandler>(kept.route("GET", "/v1/responses/{response_id}").handler)(call, kept.context));
  kept.store.check_invariants();
}

std::string tokens_of(const json::value& logprobs) {
  std::string text;
  for (const json::value& token : logprobs.as_array()) text.append(token.at("token").as_string());
  return text;
}

// The thought, the calls and their markup have none.
TEST(ResponseWriter, LogProbabilitiesStandBesideTheTextTheyMake) {
  constexpr std::string_view kAsk =
      R"("input":"q","include":["message.output_text.logprobs"],"top_logprobs":1,)";
  for (const bool stream : {false, true}) {
    for (const std::string_view text : {std::string_view("<think>hm</think>Ok, go"), kCall}) {
      SCOPED_TRACE(text);
      Kept kept;
      Answered got(kept, concat(kAsk, kTools, R"("stream":)", stream ? "true" : "false"));
      got.say(text);
      std::string streamed;
      json::value response;
      if (stream) {
        for (const json::value& event : got.events()) {
          if (event.at("type") == "response.output_text.delta") {
            EXPECT_EQ(tokens_of(event.at("logprobs")), event.at("delta").as_string());
            streamed.append(tokens_of(event.at("logprobs")));
          }
          if (event.at("type") == "response.output_text.done") {
            EXPECT_EQ(tokens_of(event.at("logprobs")), streamed);
          }
          if (event.at("type") == "response.completed") response = event.at("response");
        }
      } else {
        response = *parse_json(got.out);
      }
      const json::value& part = response.at("output").at(1).at("content").at(0);
      EXPECT_EQ(tokens_of(part.at("logprobs")), part.at("text").as_string());
      EXPECT_EQ(json::serialize(part.at("logprobs").at(0)),
                R"({"token":"O","logprob":-5E-1,"bytes":[79],)"
                R"("top_logprobs":[{"token":"z","logprob":-1.5E0,"bytes":[122]}]})");
      EXPECT_EQ(response.at("top_logprobs"), 1);
    }
  }
  Kept kept;
  Answered plain(kept, R"("input":"q")");
  plain.say("Ok");
  EXPECT_TRUE(
      parse_json(plain.out)->at("output").at(0).at("content").at(0).at("logprobs").as_array().empty());
  EXPECT_EQ((*plain.made)->answer->held_bytes_per_token(), 0);
}

}  // namespace
}  // namespace pagoda
