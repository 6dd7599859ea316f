#pragma once
// For tests only: typical shapes of client conversations; each message contains a unique word.
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "text/conversation.h"

namespace pagoda {

struct ConversationShape {
  std::string_view name;
  Conversation conversation;
  // Words of the messages, in the order in which the prompt must contain them.
  std::vector<std::string> words;
  std::vector<std::string> also = {};  // words that may occur anywhere
};

class ShapeBuilder {
 public:
  explicit ShapeBuilder(std::string_view name) { shape_.name = name; }
  ShapeBuilder& say(std::string_view role) {
    shape_.conversation.messages.push_back({.role = std::string(role), .content = Content::of(word())});
    return *this;
  }
  ShapeBuilder& parts(std::string_view role) {
    Content content{.form = Content::Form::parts, .parts = {{.text = word()}, {.text = word()}}};
    shape_.conversation.messages.push_back({.role = std::string(role), .content = std::move(content)});
    return *this;
  }
  // The assistant calls a tool; `text`: with a text beside the call, otherwise without content.
  ShapeBuilder& call(bool text = false, int count = 1) {
    ChatMessage message{.role = "assistant"};
    if (text) message.content = Content::of(word());
    for (int i = 0; i < count; ++i) {
      const std::string argument = "argument" + std::to_string(calls_) + "q";
      message.tool_calls.push_back(
          ToolCall::of("call_" + std::to_string(calls_++), "look_up", {.object = {{"city", argument}}}));
      shape_.also.push_back(argument);
    }
    shape_.also.emplace_back("look_up");
    shape_.conversation.messages.push_back(std::move(message));
    return *this;
  }
  ShapeBuilder& broken_call(std::string text) {
    call();
    shape_.also.clear();
    shape_.conversation.messages.back().tool_calls[0].set_arguments(
        {.object = {}, .text = std::move(text), .is_object = false});
    return *this;
  }
  ShapeBuilder& think() {
    shape_.conversation.messages.back().reasoning = "Let me think.";
    return *this;
  }
  ShapeBuilder& result(bool parts_of = false, std::string_view role = "tool") {
    parts_of ? parts(role) : say(role);
    shape_.conversation.messages.back().tool_call_id = "call_" + std::to_string(results_++);
    shape_.conversation.messages.back().name = "look_up";
    return *this;
  }
  ShapeBuilder& tool(boost::json::object function) {
    function["name"] = "look_up";
    ToolSpec tool{
        .name = "look_up", .parameters = {}, .shown = {{"type", "function"}, {"function", function}}};
    shape_.conversation.tools.push_back(std::move(tool));
    shape_.also.emplace_back("look_up");
    return *this;
  }
  ConversationShape take() { return std::move(shape_); }

 private:
  std::string word() { return shape_.words.emplace_back("word" + std::to_string(shape_.words.size()) + "q"); }
  ConversationShape shape_;
  int calls_ = 0, results_ = 0;
};

inline std::vector<ConversationShape> conversation_shapes() {
  using Shape = ShapeBuilder;
  const boost::json::object city{{"type", "object"}, {"properties", {{"city", {{"type", "string"}}}}}};
  const boost::json::object full{{"description", "Looks up."}, {"parameters", city}};
  std::vector<ConversationShape> out;
  out.push_back(Shape("user").say("user").take());
  out.push_back(Shape("user in parts").parts("user").take());
  out.push_back(Shape("system").say("system").say("user").say("assistant").say("user").take());
  out.push_back(Shape("system in parts").parts("system").say("user").take());
  out.push_back(Shape("developer").say("developer").say("user").take());
  out.push_back(Shape("developer in parts").parts("developer").say("user").take());
  out.push_back(Shape("system, developer").say("system").say("developer").say("user").take());
  out.push_back(Shape("two systems").say("system").parts("system").say("user").take());
  out.push_back(Shape("three systems, two of them developers")
                    .say("developer")
                    .say("developer")
                    .say("system")
                    .say("user")
                    .take());
  out.push_back(Shape("system alone").say("system").take());
  out.push_back(Shape("system before a user")
                    .say("system")
                    .say("user")
                    .say("assistant")
                    .say("system")
                    .say("user")
                    .take());
  out.push_back(Shape("system behind the user").say("system").say("user").say("system").take());
  out.push_back(Shape("system behind the user, answered")
                    .parts("system")
                    .parts("user")
                    .parts("system")
                    .say("assistant")
                    .say("user")
                    .take());
  out.push_back(
      Shape("no system but a late one").say("user").say("assistant").say("system").say("user").take());
  out.push_back(Shape("late developer").say("user").say("assistant").say("developer").say("user").take());
  out.push_back(Shape("system behind the assistant").say("user").say("assistant").say("system").take());
  out.push_back(Shape("assistant in parts").say("user").parts("assistant").say("user").take());
  out.push_back(Shape("two users").say("user").say("user").say("assistant").say("user").say("user").take());
  out.push_back(Shape("two assistants").say("user").say("assistant").say("assistant").say("user").take());
  out.push_back(Shape("assistant first").say("assistant").say("user").take());
  out.push_back(Shape("system, assistant first").say("system").say("assistant").say("user").take());
  out.push_back(Shape("call and result").tool(full).say("system").say("user").call().result().take());
  out.push_back(Shape("call without tools").say("user").call().result().say("assistant").say("user").take());
  out.push_back(Shape("reasoning, text and call").tool(full).say("user").call(true).think().result().take());
  out.push_back(Shape("reasoning and call").tool(full).say("user").call().think().result().take());
  out.push_back(Shape("call beside a text")
                    .tool(full)
                    .say("user")
                    .call(true)
                    .result()
                    .say("assistant")
                    .say("user")
                    .take());
  out.push_back(Shape("result in parts").tool(full).say("user").call().result(true).take());
  out.push_back(Shape("result of a function").tool(full).say("user").call().result(false, "function").take());
  out.push_back(Shape("two calls together").tool(full).say("user").call(false, 2).result().result().take());
  out.push_back(Shape("two calls in turn").tool(full).say("user").call().result().call().result().take());
  out.push_back(
      Shape("call, message, result").tool(full).say("user").call().say("assistant").result().take());
  out.push_back(
      Shape("message, call, result").tool(full).say("user").say("assistant").call().result().take());
  out.push_back(Shape("user behind a result").tool(full).say("user").call().result().say("user").take());
  out.push_back(Shape("system behind a result")
                    .tool(full)
                    .say("system")
                    .say("user")
                    .call()
                    .result()
                    .say("system")
                    .take());
  out.push_back(Shape("tool without description").tool({{"parameters", city}}).say("user").take());
  out.push_back(Shape("tool without parameters").tool({{"description", "Looks up."}}).say("user").take());
  out.push_back(Shape("tool with a name only").tool({}).say("user").take());
  out.push_back(
      Shape("tool of no properties").tool({{"parameters", boost::json::object()}}).say("user").take());
  out.push_back(
      Shape("arguments that are cut").tool(full).say("user").broken_call("{\"city\": \"Par").result().take());
  out.push_back(Shape("arguments that are a list").tool(full).say("user").broken_call("[1]").result().take());
  return out;
}

}  // namespace pagoda
