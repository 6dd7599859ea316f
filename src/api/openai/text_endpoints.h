#pragma once
// The endpoints that need no engine: /tokenize, /detokenize, /v1/models, /version. Body in, body out. Source
// of the forms: vLLM's OpenAI server.
// Threads: any.
#include <string>
#include <string_view>

#include "api/api_context.h"
#include "base/status.h"

namespace pagoda {

// {"prompt": …} or {"messages": […]} -> {"count", "max_model_len", "tokens", "token_strs"}.
Result<std::string> tokenize_body(std::string_view body, const ApiContext& context);
// llama.cpp's: the text of a conversation's prompt, and its number of tokens.
Result<std::string> apply_template_body(std::string_view body, const ApiContext& context);
Result<std::string> count_chat_body(std::string_view body, const ApiContext& context);
// {"tokens": […]} -> {"prompt"}.
Result<std::string> detokenize_body(std::string_view body, const ApiContext& context);
enum class ModelForm { openai, anthropic };
std::string models_body(const ApiContext& context, ModelForm form);
// One entry of the list; not_found (model_not_found) if there is none.
Result<std::string> model_body(std::string_view name, const ApiContext& context, ModelForm form);
std::string version_body(const ApiContext& context);

}  // namespace pagoda
