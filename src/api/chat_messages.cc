#include "api/chat_messages.h"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>

#include "api/json.h"
#include "api/prompt_limits.h"
#include "base/strings.h"

namespace pagoda {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxMessages = 4096;
constexpr std::size_t kMaxTools = 128;
constexpr std::size_t kMaxTemplateBytes = std::size_t{256} << 10;
constexpr std::size_t kNoLimit = std::size_t{1} << 30;  // the body's size bounds it

constexpr std::array<std::string_view, 6> kRoles = {"system",    "developer", "user",
                                                    "assistant", "tool",      "function"};
// What a template may rely on; chat_template_kwargs must not shadow it.
constexpr std::array<std::string_view, 14> kReserved = {"messages",
                                                        "tools",
                                                        "documents",
                                                        "add_generation_prompt",
                                                        "continue_final_message",
                                                        "bos_token",
                                                        "eos_token",
                                                        "tokenize",
                                                        "chat_template",
                                                        "raise_exception",
                                                        "strftime_now",
                                                        "tokenizer",
                                                        "conversation",
                                                        "return_dict"};

// The text of `content`: a string, or a list of text parts joined by newlines. Null is allowed where
// `optional` says so.
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
  std::string joined;
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
    if (i > 0) joined.push_back('\n');
    joined.append(*text);
  }
  return json::string(joined);
}

// OpenAI sends a call's arguments as JSON text; templates expect the object.
json::array read_tool_calls(FieldReader& message) {
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
                           : std::string_view(arguments->as_string().data(), arguments->as_string().size()));
        if (!parsed || !parsed->is_object())
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
      if (json::array calls = read_tool_calls(reader); !calls.empty()) copy["tool_calls"] = std::move(calls);
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

void add_template_kwargs(FieldReader& fields, json::object& context) {
  const json::object* kwargs = fields.object("chat_template_kwargs");
  if (kwargs == nullptr) return;
  for (const auto& entry : *kwargs) {
    const std::string_view name(entry.key().data(), entry.key().size());
    if (std::find(kReserved.begin(), kReserved.end(), name) != kReserved.end())
      return fields.fail(concat("chat_template_kwargs.", name), "is a reserved name");
    context[entry.key()] = entry.value();
  }
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n\f\v";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

// Cuts `prompt` right after the last message's content, as transformers does: the model goes on there.
bool cut_after(RenderedPrompt& prompt, std::string_view content) {
  std::string_view wanted = content;
  std::size_t at = prompt.text.rfind(wanted);
  if (at == std::string::npos) {  // a template may have trimmed it
    wanted = trimmed(content);
    at = prompt.text.rfind(wanted);
  }
  if (at == std::string::npos) return false;
  prompt.text.resize(at + wanted.size());
  std::erase_if(prompt.user_ranges,
                [&](const ByteRange& range) { return range.begin >= prompt.text.size(); });
  for (ByteRange& range : prompt.user_ranges) range.end = std::min(range.end, prompt.text.size());
  return true;
}

}  // namespace

ChatPrompt read_chat_prompt(FieldReader& fields, const ApiContext& api) {
  ChatPrompt result;
  json::object context;
  context["messages"] = read_messages(fields);
  context["tools"] = read_tools(fields);
  context["documents"] = nullptr;
  if (const json::array* documents = fields.array("documents", kMaxMessages))
    context["documents"] = *documents;
  const bool continued = fields.boolean("continue_final_message").value_or(false);
  const bool generation_prompt = fields.boolean("add_generation_prompt").value_or(!continued);
  if (continued && generation_prompt)
    fields.fail("continue_final_message", "and 'add_generation_prompt' cannot both be true");
  context["add_generation_prompt"] = generation_prompt;
  const auto token_text = [&](TokenId id) {
    return id < 0 ? std::string() : api.tokenizer->token_string(id);
  };
  context["bos_token"] = token_text(api.tokenizer->bos());
  context["eos_token"] = token_text(api.tokenizer->eos());
  add_template_kwargs(fields, context);
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
  if (chat_template == nullptr) {
    fields.fail("messages", "need a chat template, and this model has none; use /v1/completions");
    return result;
  }

  Result<RenderedPrompt> prompt = chat_template->render(context);
  if (!prompt) {
    fields.fail("messages", concat("cannot be rendered by the chat template: ", prompt.error().message()));
    return result;
  }
  if (continued) {
    const json::object& last = context["messages"].as_array().back().as_object();
    const json::value& content = last.at("content");
    if (content.is_string()) result.continued.assign(content.as_string().data(), content.as_string().size());
    if (result.continued.empty() || !cut_after(*prompt, result.continued)) {
      fields.fail("continue_final_message", "needs a last message with a content that the template shows");
      return result;
    }
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
