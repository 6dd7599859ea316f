#pragma once
// Conversation: what a client and a model have said so far, in no protocol's form. Protocols (api/) make it
// from their JSON; chat_prompt.h renders it with the model's template. What a model says back comes as
// AnswerEvents (answer_parser.h). Not the prompt, and no tokens. Plain data; whoever makes one has checked
// it. Threads: none.
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pagoda {

struct ContentPart {
  enum class Kind { text };  // kinds that the served models take
  Kind kind = Kind::text;
  std::string text;
};

// A message's content as it was given: templates tell a text from a list of one.
struct Content {
  enum class Form { none, text, parts };
  Form form = Form::none;
  std::vector<ContentPart> parts;  // exactly one of Form::text, none of Form::none

  static Content of(std::string text) { return {.form = Form::text, .parts = {{.text = std::move(text)}}}; }
  // Templates add to a text: what has none, beside calls, is an empty one.
  void be_text() {
    if (form == Form::none) *this = of("");
  }
  // The parts on lines of their own.
  std::string joined() const;
  // Becomes one text, in which an empty line stands before `more`.
  void add(const Content& more);
};

// The arguments of a call: what the model wrote, so it may be anything.
struct ToolArguments {
  boost::json::object object = {};
  std::string text = {};  // as it was given; empty: as an object
  bool is_object = true;  // false: `text` is not the JSON of an object
};

// A call of a tool, in a message of the assistant.
struct ToolCall {
  // As templates read it: {"id", "type": "function", "function": {"name", "arguments"}}, in the order in
  // which it was given, which some templates print. The arguments are an object where they can be read as
  // one, else a text.
  boost::json::object shown;
  std::string arguments_text = {};  // ToolArguments::text

  static ToolCall of(std::string_view id, std::string_view name, ToolArguments arguments);
  boost::json::object& function() { return shown["function"].as_object(); }
  void set_arguments(ToolArguments arguments);
};

// Nine letters and digits, which is what Mistral's templates take as the id of a call: `id` itself, or a hash
// of it.
std::string short_call_id(std::string_view id);

// A tool that the model may call.
struct ToolSpec {
  std::string name;
  boost::json::object parameters;  // JSON Schema; may be empty
  bool strict = false;             // arguments have to be of the schema
  // The grammar, in Lark or as a regular expression, of a tool whose only argument "input" is a text; empty:
  // any text.
  struct Text {
    std::string syntax = {}, grammar = {};  // syntax: "lark" or "regex"
  };
  std::optional<Text> text = {};
  // As templates read it: {"type": "function", "function": {"name", "description", "parameters"}}, in the
  // order in which it was given.
  boost::json::object shown;

  static ToolSpec of(std::string_view name, std::string_view description, boost::json::object parameters);
};

struct ChatMessage {
  std::string role;  // system, developer, user, assistant, tool, function
  Content content = {};
  std::optional<std::string> reasoning = {};  // the assistant's reasoning before its answer
  std::vector<ToolCall> tool_calls = {};
  std::optional<std::string> name = {};          // the speaker, or the tool that answers
  std::optional<std::string> tool_call_id = {};  // which call a tool's message answers
};

struct Conversation {
  std::vector<ChatMessage> messages;
  std::vector<ToolSpec> tools;          // those that the template shall show
  boost::json::value documents;         // null or a list; as the template wants it
  boost::json::object template_kwargs;  // further names for the template
  bool add_generation_prompt = true;    // the prompt ends with the beginning of the assistant's turn
  bool continue_final_message = false;  // it ends where the last message's content ends, to go on with it
};

}  // namespace pagoda
