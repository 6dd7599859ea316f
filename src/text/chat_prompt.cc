#include "text/chat_prompt.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "base/ends.h"
#include "base/sentence.h"
#include "base/strings.h"
#include "jinja/unicode.h"
#include "text/normalise.h"

namespace pagoda {
namespace {

namespace json = boost::json;

constexpr std::array<std::string_view, 16> kReserved = {
    "messages",      "tools",     "documents",    "add_generation_prompt", "continue_final_message",
    "bos_token",     "eos_token", "tokenize",     "chat_template",         "raise_exception",
    "strftime_now",  "tokenizer", "conversation", "return_dict",           "namespace",
    "return_tensors"};

// Appended to the message to be continued, then searched for in the prompt. The space reveals whether the
// template trims. As in transformers.
constexpr std::string_view kTag = "CONTINUE_FINAL_MESSAGE_TAG ";

Status bad_field(std::string param, std::string_view what) {
  std::string message = with_full_stop(concat("'", param, "' ", what));
  return invalid_argument(std::move(message)).with_param(std::move(param));
}

// Cuts `prompt` at the tag. False if the template does not show it.
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
  if (ByteRange* last = last_of(prompt.user_ranges)) last->end = std::min(last->end, end);
  return true;
}

}  // namespace

bool is_reserved_template_name(std::string_view name) {
  return std::find(kReserved.begin(), kReserved.end(), name) != kReserved.end();
}

Result<RenderedText> render_chat(const ChatTemplate* chat_template, Conversation conversation,
                                 const TemplateTokens& tokens) {
  if (chat_template == nullptr) {
    return bad_field(
        "messages",
        "need a chat template, and this model has none: start the server with --chat-template FILE|chatml, "
        "or use /v1/completions");
  }
  if (conversation.continue_final_message && conversation.add_generation_prompt)
    return bad_field("continue_final_message", "and 'add_generation_prompt' cannot both be true");
  for (const auto& entry : conversation.template_kwargs)
    if (is_reserved_template_name(entry.key()))
      return bad_field(concat("chat_template_kwargs.", std::string_view(entry.key())), "is a reserved name");
  const bool continues = conversation.continue_final_message;
  const auto last_part = [&] {
    ChatMessage* message = last_of(conversation.messages);
    return message == nullptr ? nullptr : last_of(message->content.parts);
  };
  if (continues && last_part() == nullptr)
    return bad_field("continue_final_message", "needs a last message with a text");
  normalise(conversation, chat_template->traits());
  if (ContentPart* part = last_part(); continues && part != nullptr) part->text.append(kTag);
  json::object context = template_context(std::move(conversation), tokens);
  if (chat_template->traits().empty_tools && context["tools"].is_null()) context["tools"] = json::array();
  Result<RenderedText> prompt = chat_template->render(context);
  if (!prompt)
    return bad_field("messages",
                     concat("cannot be rendered by the chat template: ", prompt.error().message()));
  if (continues && !cut_at_tag(*prompt))
    return bad_field("continue_final_message", "needs a last message that the chat template shows");
  return prompt;
}

}  // namespace pagoda
