#include "api/openai/chat_messages.h"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>

#include "api/json.h"
#include "api/prompt_limits.h"
#include "base/strings.h"
#include "text/chat_prompt.h"

namespace pagoda {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxMessages = 4096;
constexpr std::size_t kMaxTools = 128;
constexpr std::size_t kMaxArgumentKeys = 10 * kMaxJsonKeys;  // of all calls of a conversation
constexpr std::size_t kMaxTemplateBytes = std::size_t{256} << 10;
constexpr std::size_t kNoLimit = std::size_t{1} << 30;  // the body's size bounds it

constexpr std::array<std::string_view, 6> kRoles = {"system",    "developer", "user",
                                                    "assistant", "tool",      "function"};
// `content` as it came, checked: a string, or a list of text parts. Null is allowed where `optional` says so.
json::value read_content(FieldReader& message, bool optional) {
  const json::value* content = message.raw("content");
  if (content == nullptr) {
    if (!optional) message.fail("content", "is required");
    return nullptr;
  }
  if (content->is_string()) return *content;
  const json::array* parts = content->if_array();
  if (parts == nullptr) {
    message.fail("content", "must be a string or a list of text parts");
    return nullptr;
  }
  for (std::size_t i = 0; i < parts->size(); ++i) {
    const std::string path = concat("content.", i);
    const json::object* part = (*parts)[i].if_object();
    if (part == nullptr) {
      message.fail(path, "must be an object with a type");
      return nullptr;
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
    const std::optional<std::string> text = reader.string("text", kNoLimit);
    if (reader.ok() && !text) reader.fail("text", "is required");
    if (!reader.ok()) {
      message.fail(reader.status());
      return nullptr;
    }
  }
  return *parts;
}

// OpenAI sends a call's arguments as JSON text; templates expect the object.
// `keys_left`: for the arguments of the whole request.
json::array read_tool_calls(FieldReader& message, std::size_t& keys_left) {
  json::array calls;
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
      const json::value* arguments = fields.raw("arguments");
      if (fields.ok() && arguments != nullptr && arguments->is_string()) {
        Result<json::value> parsed =
            parse_json(arguments->as_string().empty()
                           ? "{}"
                           : std::string_view(arguments->as_string().data(), arguments->as_string().size()),
                       keys_left);
        if (!parsed && keys_left == 0)
          fields.fail("arguments",
                      concat("have, with those of other calls, over ", kMaxArgumentKeys, " keys"));
        else if (!parsed || !parsed->is_object())
          fields.fail("arguments", "must be the JSON text of an object");
        else
          copy["function"].as_object()["arguments"] = std::move(*parsed);
      }
      if (!fields.ok()) reader.fail(fields.status());
    }
    if (!reader.ok()) {
      message.fail(reader.status());
      return calls;
    }
    calls.push_back(std::move(copy));
  }
  return calls;
}

json::array read_messages(FieldReader& fields) {
  json::array out;
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
    const std::optional<std::string> role = reader.string("role", 64);
    if (reader.ok() && !role) reader.fail("role", "is required");
    if (reader.ok() && std::find(kRoles.begin(), kRoles.end(), *role) == kRoles.end())
      reader.fail("role", "must be one of system, developer, user, assistant, tool, function");
    const bool assistant = role == "assistant";
    json::object copy;
    if (reader.ok()) {
      copy["role"] = *role;
      copy["content"] = read_content(reader, assistant);
    }
    if (reader.ok() && assistant) {
      if (json::array calls = read_tool_calls(reader, keys_left); !calls.empty())
        copy["tool_calls"] = std::move(calls);
    }
    for (const std::string_view name : {"name", "tool_call_id", "reasoning_content"})
      if (const std::optional<std::string> text = reader.string(name, kNoLimit)) copy[name] = *text;
    if (!reader.ok()) fields.fail(reader.status());
    out.push_back(std::move(copy));
  }
  return out;
}

// The declared tools, for the template to show; null when there are none or tool_choice is "none".
json::value read_tools(FieldReader& fields) {
  const json::value* choice = fields.raw("tool_choice");
  bool shown = true;
  if (choice != nullptr) {
    const bool known =
        choice->is_string() && (choice->as_string() == "none" || choice->as_string() == "auto");
    if (known)
      shown = choice->as_string() == "auto";
    else if (choice->is_object() || (choice->is_string() && choice->as_string() == "required"))
      fields.not_built("tool_choice", "a tool call cannot be forced; use 'auto' or 'none'");
    else
      fields.fail("tool_choice", "must be 'none', 'auto', 'required' or an object");
  }
  const json::array* tools = fields.array("tools", kMaxTools);
  if (tools == nullptr || tools->empty()) return nullptr;
  for (std::size_t i = 0; i < tools->size() && fields.ok(); ++i) {
    const std::string path = concat("tools.", i);
    const json::object* tool = (*tools)[i].if_object();
    if (tool == nullptr) {
      fields.fail(path, "must be an object");
      break;
    }
    FieldReader reader(*tool, path);
    if (reader.string("type", 64) != "function" && reader.ok()) reader.fail("type", "must be 'function'");
    const json::object* function = reader.object("function");
    if (reader.ok() && function == nullptr) reader.fail("function", "is required");
    if (reader.ok()) {
      FieldReader inner(*function, reader.path_of("function"));
      if (!inner.string("name", 256) && inner.ok()) inner.fail("name", "is required");
      (void)inner.object("parameters");
      if (!inner.ok()) reader.fail(inner.status());
    }
    if (!reader.ok()) fields.fail(reader.status());
  }
  return shown ? json::value(*tools) : json::value(nullptr);
}

// What an answer that goes on with the last message repeats first, where `echo` asks for it.
std::string text_of_last(const json::array& messages) {
  const json::value& content = messages.back().as_object().at("content");
  if (content.is_string()) return std::string(content.as_string());
  std::string joined;
  if (const json::array* parts = content.if_array()) {
    for (const json::value& part : *parts) {
      if (&part != parts->data()) joined.push_back('\n');
      joined.append(part.at("text").as_string());
    }
  }
  return joined;
}

}  // namespace

ChatPrompt read_chat_prompt(FieldReader& fields, const ApiContext& api) {
  ChatPrompt result;
  ChatInput input;
  input.messages = read_messages(fields);
  input.tools = read_tools(fields);
  if (const json::array* documents = fields.array("documents", kMaxMessages)) input.documents = *documents;
  input.continue_final_message = fields.boolean("continue_final_message").value_or(false);
  input.add_generation_prompt =
      fields.boolean("add_generation_prompt").value_or(!input.continue_final_message);
  const auto token_text = [&](TokenId id) {
    return id < 0 ? std::string() : api.tokenizer->token_string(id);
  };
  input.bos_token = token_text(api.tokenizer->bos());
  input.eos_token = token_text(api.tokenizer->eos());
  if (const json::object* kwargs = fields.object("chat_template_kwargs")) input.template_kwargs = *kwargs;
  const std::optional<std::string> own_template = fields.string("chat_template", kMaxTemplateBytes);
  if (own_template && !api.allow_request_chat_template)
    fields.fail("chat_template", "is not accepted from requests by this server");
  const bool special = fields.boolean("add_special_tokens").value_or(false);
  if (!fields.ok()) return result;

  std::optional<ChatTemplate> parsed;
  const ChatTemplate* chat_template = api.chat_template;
  if (own_template) {
    Result<ChatTemplate> from_request = ChatTemplate::parse(*own_template);
    if (!from_request) {
      fields.fail("chat_template", concat("is not a valid template: ", from_request.error().message()));
      return result;
    }
    chat_template = &parsed.emplace(std::move(*from_request));
  }
  if (input.continue_final_message) result.continued = text_of_last(input.messages);
  const Result<RenderedText> prompt = render_chat(chat_template, std::move(input));
  if (!prompt) {
    fields.fail(prompt.error());
    return result;
  }
  if (exceeds_byte_bound(api, prompt->text.size())) {
    fields.fail(
        context_length_exceeded(api, "messages", "Your messages are longer than that; please shorten them."));
    return result;
  }
  EncodeOptions options;
  options.add_special_tokens = special;
  options.plain_ranges = prompt->user_ranges;
  Result<std::vector<TokenId>> ids = api.tokenizer->encode(prompt->text, options);
  if (!ids)
    fields.fail("messages", "cannot be tokenised");
  else
    result.token_ids = std::move(*ids);
  return result;
}

}  // namespace pagoda
