#include "api/chat_prompt_tokens.h"

#include <algorithm>
#include <optional>

#include "api/prompt_limits.h"
#include "base/strings.h"
#include "text/chat_prompt.h"

namespace pagoda {

void check_role(FieldReader& message, std::string_view role, const ApiContext& context) {
  constexpr std::string_view kRoles[] = {"system", "developer", "user", "assistant", "tool", "function"};
  if (std::ranges::find(kRoles, role) != std::end(kRoles) || context.allow_request_chat_template) return;
  if (context.chat_template != nullptr && context.chat_template->shows_role(role)) return;
  message.fail("role",
               "must be system, developer, user, assistant, tool, function, or a role that the model's chat "
               "template shows");
}

Result<std::vector<TokenId>> chat_prompt_tokens(Conversation conversation, const ApiContext& context,
                                                const ChatPromptOptions& options) {
  const Tokenizer& tokenizer = *context.tokenizer;
  const ChatTemplate* chat_template = context.chat_template;
  if (!conversation.tools.empty() && context.tool_template != nullptr) chat_template = context.tool_template;
  std::optional<ChatTemplate> parsed;
  if (options.own_template) {
    Result<ChatTemplate> own = ChatTemplate::parse(*options.own_template, timed_template_options());
    if (!own) return bad_field("chat_template", concat("is not a valid template: ", own.error().message()));
    chat_template = &parsed.emplace(std::move(*own));
  }
  for (const auto& [name, value] : context.template_kwargs) conversation.template_kwargs.emplace(name, value);
  const auto text_of = [&](TokenId id) { return id < 0 ? std::string() : tokenizer.token_string(id); };
  const TemplateTokens tokens{.bos = text_of(tokenizer.bos()), .eos = text_of(tokenizer.eos())};
  Result<RenderedText> prompt = render_chat(chat_template, std::move(conversation), tokens);
  if (!prompt) return prompt.error();
  if (exceeds_byte_bound(context, prompt->text.size()))
    return context_length_exceeded(context, "messages",
                                   "Your messages are longer than that; please shorten them.");
  EncodeOptions encode;
  encode.add_special_tokens = options.add_special_tokens;
  encode.plain_ranges = prompt->user_ranges;
  Result<std::vector<TokenId>> ids = tokenizer.encode(prompt->text, encode);
  if (!ids) return bad_field("messages", "cannot be tokenised");
  return ids;
}

}  // namespace pagoda
