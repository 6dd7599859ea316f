#pragma once
// The chat templates of a model: --chat-template (a file, a template's text as in vLLM, the name of one of
// the model's own, or "chatml"), else those that the model brings.
//
// GGUF: tokenizer.chat_template, and tokenizer.chat_template.tool_use for requests with tools. A folder, the
// first place that has a default: chat_template.jinja, chat_template.json and processor_config.json
// (processors of 2024 and later), tokenizer_config.json; further ones in
// additional_chat_templates/NAME.jinja; with tekken.json alone, that of tekken_template.h. Source:
// transformers and vLLM, which take `tool_use` where there are tools.
#include <boost/json/object.hpp>
#include <map>
#include <memory>
#include <string>

#include "base/status.h"
#include "loader/model_source.h"
#include "text/chat_template.h"

namespace pagoda {

// As the model's files have them; empty: none.
struct ChatTemplateTexts {
  std::string usual, tool_use;
  std::map<std::string, std::string, std::less<>> others = {};  // further ones of a JSON file, by their names
};
ChatTemplateTexts chat_template_texts(const ModelSource& source);

struct ChatTemplates {
  std::unique_ptr<ChatTemplate> usual;     // null: the model has none
  std::unique_ptr<ChatTemplate> tool_use;  // for requests with tools; null: the usual one
};

// invalid_argument: --chat-template cannot be read or parsed. A template of the model's own that cannot be
// parsed is a warning: completions still work.
Result<ChatTemplates> load_chat_templates(const std::string& chosen, const ModelSource& source);

// The object of --default-chat-template-kwargs; of an empty text an empty one. invalid_argument: it is none,
// or sets what conversations set.
Result<boost::json::object> default_template_kwargs(const std::string& text);

}  // namespace pagoda
