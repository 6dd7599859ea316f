#pragma once
// The chat templates of a model: --chat-template (a file, the text of a template as in vLLM, the name of one
// of the model's own templates, or "chatml"); otherwise the model's templates.
//
// GGUF: tokenizer.chat_template, and tokenizer.chat_template.tool_use for requests with tools. Folder: the
// first of these with a default template: chat_template.jinja, chat_template.json and processor_config.json
// (processors of 2024 and later), tokenizer_config.json; more templates in
// additional_chat_templates/NAME.jinja; with only tekken.json, tekken_template.h. Source: transformers and
// vLLM, which use `tool_use` for requests with tools.
#include <boost/json/object.hpp>
#include <map>
#include <memory>
#include <string>

#include "base/status.h"
#include "loader/model_source.h"
#include "text/chat_template.h"

namespace pagoda {

// As in the model's files; empty if there is no such template.
struct ChatTemplateTexts {
  std::string usual, tool_use;
  std::map<std::string, std::string, std::less<>> others = {};  // further templates of a JSON file, by name
};
ChatTemplateTexts chat_template_texts(const ModelSource& source);

struct ChatTemplates {
  std::unique_ptr<ChatTemplate> usual;     // null: the model has no template
  std::unique_ptr<ChatTemplate> tool_use;  // for requests with tools; null: use the usual one
};

// invalid_argument: --chat-template cannot be read or parsed. If a template of the model cannot be parsed,
// only a warning is logged, because completions still work.
Result<ChatTemplates> load_chat_templates(const std::string& chosen, const ModelSource& source);

// Parses the JSON object of --default-chat-template-kwargs; an empty text gives an empty object.
// invalid_argument: not an object, or it sets variables that conversations set.
Result<boost::json::object> default_template_kwargs(const std::string& text);

}  // namespace pagoda
