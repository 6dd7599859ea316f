#include "text/chat_prompt.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "base/strings.h"
#include "jinja/unicode.h"

namespace pagoda {
namespace {

namespace json = boost::json;

constexpr std::array<std::string_view, 16> kReserved = {
    "messages",      "tools",     "documents",    "add_generation_prompt", "continue_final_message",
    "bos_token",     "eos_token", "tokenize",     "chat_template",         "raise_exception",
    "strftime_now",  "tokenizer", "conversation", "return_dict",           "namespace",
    "return_tensors"};

// Appended to the message to be continued, and looked for in the prompt. The space tells whether the template
// trims. As transformers.
constexpr std::string_view kTag = "CONTINUE_FINAL_MESSAGE_TAG ";

Status bad_field(std::string param, std::string_view what) {
  std::string message = concat("'", param, "' ", what, ".");
  return invalid_argument(std::move(message)).with_param(std::move(param));
}

// The newest name first: templates read reasoning_content, some thinking.
void alias_reasoning(json::object& message) {
  for (const std::string_view name : {"reasoning_content", "thinking", "reasoning"}) {
    const json::value* reasoning = message.if_contains(name);
    if (reasoning == nullptr || reasoning->is_null()) continue;
    const json::value copy = *reasoning;
    if (!message.contains("thinking")) message["thinking"] = copy;
    message["reasoning_content"] = copy;
    return;
  }
}

// Checks the parts of a content list, and joins them unless the template wants the list.
Status prepare_content(json::object& message, std::size_t index, ChatTemplate::ContentFormat format) {
  json::value* content = message.if_contains("content");
  if (content == nullptr) return {};
  if (content->is_string()) {
    if (format == ChatTemplate::ContentFormat::parts_only) {
      json::object part{{"type", "text"}, {"text", std::move(*content)}};
      *content = json::array{std::move(part)};
    }
    return {};
  }
  const json::array* parts = content->if_array();
  if (parts == nullptr) return {};
  std::string joined;
  for (std::size_t i = 0; i < parts->size(); ++i) {
    const std::string path = concat("messages.", index, ".content.", i);
    const json::object* part = (*parts)[i].if_object();
    const json::value* type = part == nullptr ? nullptr : part->if_contains("type");
    if (type == nullptr || !type->is_string()) return bad_field(path, "must be an object with a type");
    if (type->get_string() != "text") {
      return bad_field(path + ".type", concat("is '", std::string_view(type->get_string()),
                                              "', but this model takes text only"));
    }
    const json::value* text = part->if_contains("text");
    if (text == nullptr || !text->is_string()) return bad_field(path + ".text", "must be a string");
    if (i > 0) joined.push_back('\n');
    joined.append(text->get_string());
  }
  if (format == ChatTemplate::ContentFormat::text) *content = json::string(joined);
  return {};
}

// The text that is to be continued: the content, or the last text of its list; null when there is none.
json::string* last_text(json::object& message) {
  json::value* content = message.if_contains("content");
  if (content == nullptr) return nullptr;
  if (content->is_string()) return &content->get_string();
  json::array* parts = content->if_array();
  if (parts == nullptr || parts->empty()) return nullptr;
  return &parts->back().as_object()["text"].as_string();  // checked by prepare_content
}

// Cuts `prompt` at the tag. False: the template does not show it.
bool cut_at_tag(RenderedText& prompt) {
  const std::string_view bare = kTag.substr(0, kTag.size() - 1);
  const std::size_t tag = prompt.text.rfind(bare);
  if (tag == std::string::npos) return false;
  std::size_t end = tag;
  if (prompt.text.compare(tag, kTag.size(), kTag) !=
      0) {  // the template trims, so it would have trimmed here
    while (end > 0) {
      std::size_t begin = end;
      if (!jinja::is_space(jinja::previous_char(prompt.text, begin))) break;
      end = begin;
    }
  }
  prompt.text.resize(end);
  std::erase_if(prompt.user_ranges, [&](const ByteRange& range) { return range.begin >= end; });
  if (!prompt.user_ranges.empty())
    prompt.user_ranges.back().end = std::min(prompt.user_ranges.back().end, end);
  return true;
}

}  // namespace

bool is_reserved_template_name(std::string_view name) {
  return std::find(kReserved.begin(), kReserved.end(), name) != kReserved.end();
}

Result<RenderedText> render_chat(const ChatTemplate* chat_template, ChatInput input) {
  if (chat_template == nullptr) {
    return bad_field(
        "messages",
        "need a chat template, and this model has none: start the server with --chat-template FILE, "
        "or use /v1/completions");
  }
  if (input.continue_final_message && input.add_generation_prompt) {
    return bad_field("continue_final_message", "and 'add_generation_prompt' cannot both be true");
  }
  json::object context;
  for (const auto& entry : input.template_kwargs) {
    if (is_reserved_template_name(entry.key())) {
      return bad_field(concat("chat_template_kwargs.", std::string_view(entry.key())), "is a reserved name");
    }
    context[entry.key()] = entry.value();
  }
  for (std::size_t i = 0; i < input.messages.size(); ++i) {
    json::object* message = input.messages[i].if_object();
    if (message == nullptr) return bad_field(concat("messages.", i), "must be an object");
    alias_reasoning(*message);
    PAGODA_RETURN_IF_ERROR(prepare_content(*message, i, chat_template->content_format()));
  }
  if (input.continue_final_message) {
    json::string* text = input.messages.empty() ? nullptr : last_text(input.messages.back().get_object());
    if (text == nullptr) return bad_field("continue_final_message", "needs a last message with a text");
    text->append(kTag);
  }
  context["messages"] = std::move(input.messages);
  context["tools"] = std::move(input.tools);
  context["documents"] = std::move(input.documents);
  context["add_generation_prompt"] = input.add_generation_prompt;
  context["bos_token"] = input.bos_token;
  context["eos_token"] = input.eos_token;

  Result<RenderedText> prompt = chat_template->render(context);
  if (!prompt)
    return bad_field("messages",
                     concat("cannot be rendered by the chat template: ", prompt.error().message()));
  if (input.continue_final_message && !cut_at_tag(*prompt)) {
    return bad_field("continue_final_message", "needs a last message that the chat template shows");
  }
  return prompt;
}

}  // namespace pagoda
