#include "api/openai/chat_messages.h"

#include <boost/json/array.hpp>

#include "api/chat_prompt_tokens.h"
#include "api/content_parts.h"
#include "api/declared_tools.h"
#include "api/json.h"
#include "api/reasoning_fields.h"
#include "api/tool_choice.h"
#include "api/tool_fields.h"
#include "base/ends.h"
#include "base/strings.h"
#include "text/conversation.h"

namespace pagoda {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxTemplateBytes = std::size_t{256} << 10;

// Reads and checks `content`: a string or a list of parts. null is allowed if `optional`. Thoughts go to
// `thoughts`, if given.
Content read_content(FieldReader& message, bool optional, Warnings& warnings, std::string* thoughts,
                     Media media) {
  Content out;
  const json::value* content = message.raw("content", {"string", "array"});
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
  out.parts = read_parts(message, "content", *parts, warnings, thoughts, media);
  return out;
}

// {"type": "custom", "custom": {"name", "input"}} -> the call as the model wrote it.
ToolCall read_custom_call(FieldReader& call, const DeclaredTools& tools) {
  const json::object* custom = call.object("custom");
  if (call.ok() && custom == nullptr) call.fail("custom", "is required");
  if (!call.ok()) return {};
  FieldReader fields(*custom, call.path_of("custom"));
  const std::optional<std::string> name = fields.string("name", kMaxToolNameBytes);
  if (fields.ok() && !name) fields.fail("name", "is required");
  const std::string group = call.string("namespace", kMaxToolNameBytes).value_or("");
  const std::string input = fields.string("input", kAnyLength).value_or("");
  const std::string id = call.string("id", kAnyLength).value_or("");
  if (!fields.ok()) call.fail(fields.status());
  if (!call.ok()) return {};
  return ToolCall::of(id, tools.model_name(group, *name), {.object = {{"input", input}}});
}

// `keys_left`: number of keys left for the arguments of the whole request.
std::vector<ToolCall> read_tool_calls(FieldReader& message, const DeclaredTools& tools,
                                      std::size_t& keys_left) {
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
    if (reader.string("type", 64).value_or("function") == "custom") {
      calls.push_back(read_custom_call(reader, tools));
      if (!reader.ok()) return message.fail(reader.status()), calls;
      continue;
    }
    const json::object* function = reader.object("function");
    if (reader.ok() && function == nullptr) reader.fail("function", "is required");
    ToolCall out{.shown = *call};
    if (reader.ok()) {
      FieldReader fields(*function, reader.path_of("function"));
      const std::optional<std::string> name = fields.string("name", 1024);
      if (!name && fields.ok()) fields.fail("name", "is required");
      const std::string group = reader.string("namespace", kMaxToolNameBytes).value_or("");
      if (name && !group.empty()) out.function()["name"] = tools.model_name(group, *name);
      out.set_arguments(read_call_arguments(fields, "arguments", keys_left));
      if (!fields.ok()) reader.fail(fields.status());
    }
    if (!reader.ok()) {
      message.fail(reader.status());
      return calls;
    }
    calls.push_back(std::move(out));
  }
  return calls;
}

std::vector<ChatMessage> read_messages(FieldReader& fields, const DeclaredTools& tools, const ApiContext& api,
                                       Warnings& warnings) {
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
    if (reader.ok()) check_role(reader, *role, api);
    const bool assistant = role == "assistant";
    ChatMessage read;
    std::string thoughts;
    if (reader.ok()) {
      read.role = *std::move(role);
      const bool result = read.role == "tool" || read.role == "function";
      read.content = read_content(reader, assistant || result, warnings, assistant ? &thoughts : nullptr,
                                  result ? Media::named : Media::refused);
    }
    if (reader.ok() && assistant) read.tool_calls = read_tool_calls(reader, tools, keys_left);
    read.name = reader.string("name", kAnyLength);
    read.tool_call_id = reader.string("tool_call_id", kAnyLength);
    read.reasoning = reader.string("reasoning_content", kAnyLength);
    if (!read.reasoning) read.reasoning = reader.string("reasoning", kAnyLength);
    if (!read.reasoning && !thoughts.empty()) read.reasoning = std::move(thoughts);
    if (!reader.ok()) fields.fail(reader.status());
    out.push_back(std::move(read));
  }
  return out;
}

// True if the last message itself asks to be continued: "prefix" (DeepSeek, Mistral) or "partial" (Kimi,
// Qwen).
bool continues_itself(FieldReader& fields) {
  const json::array* messages = fields.array("messages", kMaxMessages);
  const json::object* last =
      messages == nullptr || messages->empty() ? nullptr : messages->back().if_object();
  if (last == nullptr) return false;
  const auto asks = [last](std::string_view name) {
    const json::value* value = last->if_contains(name);
    return value != nullptr && *value == json::value(true);
  };
  const json::value* role = last->if_contains("role");
  return role != nullptr && *role == json::value("assistant") && (asks("prefix") || asks("partial"));
}

}  // namespace

ChatPrompt read_chat_prompt(FieldReader& fields, const ApiContext& api) {
  ChatPrompt result;
  Conversation conversation;
  DeclaredTools tools(ToolProtocol::chat);
  tools.read(fields, "tools", result.warnings);
  tools.settle();
  conversation.messages = read_messages(fields, tools, api, result.warnings);
  result.choice = read_tool_choice(fields, tools);
  result.origins = tools.origins();
  if (result.choice.kind != ToolChoice::Kind::none) conversation.tools = tools.take_tools();
  if (const json::array* documents = fields.array("documents", kMaxMessages))
    conversation.documents = *documents;
  conversation.continue_final_message =
      fields.boolean("continue_final_message").value_or(continues_itself(fields));
  conversation.add_generation_prompt =
      fields.boolean("add_generation_prompt").value_or(!conversation.continue_final_message);
  if (const json::object* kwargs = fields.object("chat_template_kwargs"))
    conversation.template_kwargs = *kwargs;
  result.reasoning = read_reasoning_wish(fields);
  result.reasoning.add_template_variables(conversation.template_kwargs, api.template_kwargs);
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
