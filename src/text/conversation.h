#pragma once
// Conversation: the messages between a client and a model so far, independent of protocols. Protocols (api/)
// build it from their JSON; chat_prompt.h renders it with the model's template. The model's answers arrive as
// AnswerEvents (answer_parser.h). Contains neither prompt nor tokens. Plain data, validated by its creator.
// Threads: none.
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pagoda {

struct ContentPart {
  enum class Kind { text };  // kinds that the served models accept
  Kind kind = Kind::text;
  std::string text;
};

// A message's content in the form given by the client: templates distinguish a text from a list of one text.
struct Content {
  enum class Form { none, text, parts };
  Form form = Form::none;
  std::vector<ContentPart> parts;  // exactly one for Form::text, none for Form::none

  static Content of(std::string text) { return {.form = Form::text, .parts = {{.text = std::move(text)}}}; }
  // Templates concatenate content with other text: missing content (beside calls) becomes an empty text.
  void be_text() {
    if (form == Form::none) *this = of("");
  }
  // The parts, each on its own line.
  std::string joined() const;
  // Converts the content to one text and appends `more` after an empty line.
  void add(const Content& more);
};

// The arguments of a call, as written by the model: not necessarily valid.
struct ToolArguments {
  boost::json::object object = {};
  std::string text = {};  // as given by the client; empty if given as an object
  bool is_object = true;  // false: `text` is not a JSON object
};

// A tool call in an assistant message.
struct ToolCall {
  // The JSON passed to templates: {"id", "type": "function", "function": {"name", "arguments"}}, with keys in
  // the order given by the client, which some templates print. The arguments are an object if they parse as
  // one, otherwise a string.
  boost::json::object shown;
  std::string arguments_text = {};  // ToolArguments::text

  static ToolCall of(std::string_view id, std::string_view name, ToolArguments arguments);
  boost::json::object& function() { return shown["function"].as_object(); }
  void set_arguments(ToolArguments arguments);
};

// A call id of nine letters and digits, as Mistral's templates require: `id` itself if it has that form,
// otherwise a hash of it.
std::string short_call_id(std::string_view id);

// A tool that the model may call.
struct ToolSpec {
  std::string name;
  boost::json::object parameters;  // JSON Schema; may be empty
  bool strict = false;             // arguments must conform to the schema
  // Set for a tool whose only argument, "input", is a text: its grammar, in Lark or as a regular expression;
  // empty for any text.
  struct Text {
    std::string syntax = {}, grammar = {};  // syntax: "lark" or "regex"
  };
  std::optional<Text> text = {};
  // The JSON passed to templates: {"type": "function", "function": {"name", "description", "parameters"}},
  // with keys in the order given by the client.
  boost::json::object shown;

  static ToolSpec of(std::string_view name, std::string_view description, boost::json::object parameters);
};

struct ChatMessage {
  std::string role;  // system, developer, user, assistant, tool, function
  Content content = {};
  std::optional<std::string> reasoning = {};  // the assistant's reasoning before its answer
  std::vector<ToolCall> tool_calls = {};
  std::optional<std::string> name = {};          // the speaker, or the tool that produced the result
  std::optional<std::string> tool_call_id = {};  // the call that a tool message answers
};

struct Conversation {
  std::vector<ChatMessage> messages;
  std::vector<ToolSpec> tools;          // tools to show to the model
  boost::json::value documents;         // null or a list, passed to the template as is
  boost::json::object template_kwargs;  // additional variables for the template
  bool add_generation_prompt = true;    // end the prompt with the start of an assistant turn
  // End the prompt at the end of the last message's content, to continue it.
  bool continue_final_message = false;
};

}  // namespace pagoda
