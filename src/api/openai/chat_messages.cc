#include "api/openai/chat_messages.h"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>

#include "api/chat_prompt_tokens.h"
#include "api/json.h"
#include "api/tool_fields.h"
#include "base/ends.h"
#include "base/strings.h"
#include "text/conversation.h"

namespace pagoda {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxTemplateBytes = std::size_t{256} << 10;

constexpr std::array<std::string_view, 6> kRoles = {"system",    "developer", "user",
                                                    "assistant", "tool",      "function"};
// `content`, checked: a string, or a list of text parts. Null is allowed where `optional` says so.
Content read_content(FieldReader& message, bool optional) {
  Content out;
  const json::value* content = message.raw("content");
  if (content == nullptr) {
    if (!optional) message.fail("content", "is required");
    return {};
  }
  if (content->is_string()) return Content::of(std::string(content->as_string()));
  const json::array* parts = content->if_array();
  if (parts == nullptr) {
    message.fail("content", "must be a string or a list of text parts");
    return {};
  }
  out.form = Content::Form::parts;
  for (std::size_t i = 0; i < parts->size(); ++i) {
    const std::string path = concat("content.", i);
    const json::object* part = (*parts)[i].if_object();
    if (part == nullptr) {
      message.fail(path, "must be an object with a type");
      return {};
    }
    FieldReader reader(*part, message.path_of(path));
    const std::string type = reader.string("type", 64).value_or("");
    if (reader.ok() && type != "text") {
      if (type == "image_url" || type == "input_audio" || type == "file" || type == "video_url" ||
          type == "refusal")
        reader.fail("type", concat("is '", type, "', but this model takes text only"));
      else
        reader.fail("type", "must be 'text'");
    }
    std::optional<std::string> text = reader.string("text", kAnyLength);
    if (reader.ok() && !text) reader.fail("text", "is required");
    if (!reader.ok()) {
      message.fail(reader.status());
      return {};
    }
    out.parts.push_back({.text = *std::move(text)});
  }
  return out;
}

// OpenAI sends a call's arguments as JSON text; templates expect the object.
// `keys_left`: for the arguments of the whole request.
std::vector<ToolCall> read_tool_calls(FieldReader& message, std::size_t& keys_left) {
  std::vector<ToolCall> calls;
  const json::array* list = message.array("tool_calls", kMaxTools);
  if (list == nullptr) return calls;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const std::string path = concat("tool_calls.", i);
    const json::object* call = (*list)[i].if_object();
    if (call == nullptr) {
      message.fail(path, "must be an object");
      return calls;
    }
    FieldReader reader(*call, message.path_of(path));
    const json::object* function = reader.object("function");
    if (reader.ok() && function == nullptr) reader.fail("function", "is required");
    json::object copy = *call;
    if (reader.ok()) {
      FieldReader fields(*function, reader.path_of("function"));
      if (!fields.string("name", 1024) && fields.ok()) fields.fail("name", "is required");
      if (const json::value* arguments = fields.raw("arguments");
          arguments != nullptr && arguments->is_string())
        copy["function"].as_object()["arguments"] = read_call_arguments(fields, keys_left);
      if (!fields.ok()) reader.fail(fields.status());
    }
    if (!reader.ok()) {
      message.fail(reader.status());
      return calls;
    }
    calls.push_back({.shown = std::move(copy)});
  }
  return calls;
}

std::vector<ChatMessage> read_messages(FieldReader& fields) {
  std::vector<ChatMessage> out;
  std::size_t keys_left = kMaxArgumentKeys;
  const json::array* messages = fields.array("messages", kMaxMessages);
  if (messages == nullptr) {
    fields.fail("messages", "is required");
    return out;
  }
  if (messages->empty()) fields.fail("messages", "must not be empty");
  for (std::size_t i = 0; i < messages->size() && fields.ok(); ++i) {
    const std::string path = concat("messages.", i);
    const json::object* message = (*messages)[i].if_object();
    if (message == nullptr) {
      fields.fail(path, "must be an object");
      break;
    }
    FieldReader reader(*message, path);
    std::optional<std::string> role = reader.string("role", 64);
    if (reader.ok() && !role) reader.fail("role", "is required");
    if (reader.ok() && std::find(kRoles.begin(), kRoles.end(), *role) == kRoles.end())
      reader.fail("role", "must be one of system, developer, user, assistant, tool, function");
    const bool assistant = role == "assistant";
    ChatMessage read;
    if (reader.ok()) {
      read.role = *std::move(role);
      read.content = read_content(reader, assistant);
    }
    if (reader.ok() && assistant) read.tool_calls = read_tool_calls(reader, keys_left);
    read.name = reader.string("name", kAnyLength);
    read.tool_call_id = reader.string("tool_call_id", kAnyLength);
    read.reasoning = reader.string("reasoning_content", kAnyLength);
    if (!read.reasoning) read.reasoning = reader.string("reasoning", kAnyLength);
    if (!reader.ok()) fields.fail(reader.status());
    out.push_back(std::move(read));
  }
  return out;
}

// tool_choice: a word, or {"type": "function", "function": {"name"}}.
ToolChoice read_tool_choice(FieldReader& fields) {
  using Kind = ToolChoice::Kind;
  const json::value* choice = fields.raw("tool_choice");
  if (choice == nullptr) return {};
  if (const json::string* word = choice->if_string()) {
    if (*word == "none") return {.kind = Kind::none};
    if (*word == "auto") return {};
    if (*word == "required") return {.kind = Kind::required};
  }
  const json::object* object = choice->if_object();
  if (object == nullptr) {
    fields.fail("tool_choice", "must be 'none', 'auto', 'required' or an object");
    return {};
  }
  FieldReader reader(*object, "tool_choice");
  ToolChoice named{.kind = Kind::named};
  if (reader.string("type", 64).value_or("function") != "function" && reader.ok())
    reader.fail("type", "must be 'function'");
  const json::object* function = reader.object("function");
  if (reader.ok() && function == nullptr) reader.fail("function", "is required");
  if (reader.ok()) {
    FieldReader inner(*function, reader.path_of("function"));
    std::optional<std::string> name = inner.string("name", 256);
    if (inner.ok() && !name) inner.fail("name", "is required");
    if (!inner.ok()) reader.fail(inner.status());
    named.name = name.value_or("");
  }
  if (!reader.ok()) fields.fail(reader.status());
  return named;
}

// The declared tools, for the template to show.
std::vector<ToolSpec> read_tools(FieldReader& fields) {
  const json::array* tools = fields.array("tools", kMaxTools);
  std::vector<ToolSpec> out;
  if (tools == nullptr) return out;
  for (std::size_t i = 0; i < tools->size() && fields.ok(); ++i) {
    const std::string path = concat("tools.", i);
    const json::object* tool = (*tools)[i].if_object();
    if (tool == nullptr) {
      fields.fail(path, "must be an object");
      break;
    }
    FieldReader reader(*tool, path);
    if (reader.raw("type") == nullptr) reader.fail("type", "must be 'function'");
    out.push_back(read_function_tool(reader, *tool));
    if (!reader.ok()) fields.fail(reader.status());
  }
  return out;
}

// {"type": "enabled"} or "disabled", as DeepSeek and Z.ai have it; "auto" and "adaptive" leave it to the
// model.
std::optional<bool> read_thinking_type(FieldReader& fields) {
  const json::value* value = fields.raw("thinking");
  if (value == nullptr) return {};
  if (value->is_bool()) return value->as_bool();
  const json::object* thinking = fields.object("thinking");
  if (thinking == nullptr) return {};
  FieldReader reader(*thinking, "thinking");
  const std::string type = reader.string("type", 32).value_or("auto");
  if (reader.ok() && type != "enabled" && type != "disabled" && type != "auto" && type != "adaptive")
    reader.fail("type", "must be 'enabled', 'disabled', 'auto' or 'adaptive'");
  if (!reader.ok()) fields.fail(reader.status());
  if (type == "enabled") return true;
  if (type == "disabled") return false;
  return {};
}

// {"effort": …, "enabled": …}, as OpenRouter has it.
std::optional<bool> read_reasoning_object(FieldReader& fields, std::optional<std::string>& effort) {
  const json::object* reasoning = fields.object("reasoning");
  if (reasoning == nullptr) return {};
  FieldReader reader(*reasoning, "reasoning");
  if (std::optional<std::string> level = reader.string("effort", 32); level && !effort)
    effort = std::move(level);
  const std::optional<bool> enabled = reader.boolean("enabled");
  if (!reader.ok()) fields.fail(reader.status());
  return enabled;
}

// How much the model is to reason, in the words that templates know.
void read_reasoning_fields(FieldReader& fields, json::object& kwargs, ChatPrompt& prompt) {
  std::optional<bool> thinking = fields.boolean("enable_thinking");
  std::optional<std::string> effort = fields.string("reasoning_effort", 32);
  const std::optional<bool> enabled = read_reasoning_object(fields, effort),
                            typed = read_thinking_type(fields);
  if (!thinking) thinking = typed ? typed : enabled;
  if (effort) {
    if (!kwargs.contains("reasoning_effort")) kwargs["reasoning_effort"] = *effort;
    if (*effort == "none" && !thinking) thinking = false;
  }
  if (thinking)
    for (const std::string_view name : {"enable_thinking", "thinking"})
      if (!kwargs.contains(name)) kwargs[name] = *thinking;
  if (const auto budget = fields.integer("thinking_token_budget", 0, 1 << 30))
    prompt.thinking_budget = static_cast<std::int32_t>(*budget);
}

}  // namespace

ChatPrompt read_chat_prompt(FieldReader& fields, const ApiContext& api) {
  ChatPrompt result;
  Conversation conversation;
  conversation.messages = read_messages(fields);
  conversation.tools = read_tools(fields);
  result.choice = read_tool_choice(fields);
  if (result.choice.kind == ToolChoice::Kind::none) conversation.tools.clear();
  if (const json::array* documents = fields.array("documents", kMaxMessages))
    conversation.documents = *documents;
  conversation.continue_final_message = fields.boolean("continue_final_message").value_or(false);
  conversation.add_generation_prompt =
      fields.boolean("add_generation_prompt").value_or(!conversation.continue_final_message);
  if (const json::object* kwargs = fields.object("chat_template_kwargs"))
    conversation.template_kwargs = *kwargs;
  read_reasoning_fields(fields, conversation.template_kwargs, result);
  ChatPromptOptions options;
  options.own_template = fields.string("chat_template", kMaxTemplateBytes);
  if (options.own_template && !api.allow_request_chat_template)
    fields.fail("chat_template",
                "is not accepted from requests by this server (--trust-request-chat-template)");
  options.add_special_tokens = fields.boolean("add_special_tokens").value_or(false);
  if (!fields.ok()) return result;

  if (const ChatMessage* last = last_of(conversation.messages);
      last != nullptr && conversation.continue_final_message)
    result.continued = last->content.joined();
  result.tools = conversation.tools;
  Result<std::vector<TokenId>> ids = chat_prompt_tokens(std::move(conversation), api, options);
  if (!ids)
    fields.fail(ids.error());
  else
    result.token_ids = std::move(*ids);
  return result;
}

}  // namespace pagoda
