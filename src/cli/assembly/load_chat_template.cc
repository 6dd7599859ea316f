#include "cli/assembly/load_chat_template.h"

#include <boost/json.hpp>

#include "base/log.h"
#include "base/strings.h"
#include "loader/mapped_file.h"
#include "text/chat_prompt.h"

namespace pagoda {
namespace {

// tokenizer_config.json: a string, or a list of {"name", "template"} of which "default" is taken.
std::string template_in_tokenizer_config(const std::string& text) {
  boost::system::error_code error;
  const boost::json::value config = boost::json::parse(text, error);
  if (error || !config.is_object()) return {};
  const boost::json::value* field = config.as_object().if_contains("chat_template");
  if (field == nullptr) return {};
  if (const auto* source = field->if_string()) return std::string(*source);
  if (const auto* list = field->if_array()) {
    for (const boost::json::value& entry : *list) {
      if (!entry.is_object()) continue;
      const boost::json::value* name = entry.as_object().if_contains("name");
      const boost::json::value* source = entry.as_object().if_contains("template");
      if (name != nullptr && name->is_string() && name->as_string() == "default" && source != nullptr &&
          source->is_string())
        return std::string(source->as_string());
    }
  }
  return {};
}

std::string template_of(const ModelSource& source) {
  if (const GgufFile* gguf = source.gguf()) {
    const auto* text = gguf->string("tokenizer.chat_template");
    return text != nullptr ? std::string(*text) : std::string();
  }
  if (auto file = source.side_file("chat_template.jinja")) return *file;
  if (auto config = source.side_file("tokenizer_config.json")) return template_in_tokenizer_config(*config);
  return {};
}

}  // namespace

Result<std::unique_ptr<ChatTemplate>> load_chat_template(const std::string& file, const ModelSource& source) {
  if (!file.empty()) {
    auto text = read_text_file(file);
    if (!text) return text.error().annotate("--chat-template");
    auto parsed = ChatTemplate::parse(*std::move(text), timed_template_options());
    if (!parsed) return parsed.error().annotate("--chat-template");
    return std::make_unique<ChatTemplate>(*std::move(parsed));
  }
  const std::string text = template_of(source);
  if (text.empty()) return std::unique_ptr<ChatTemplate>();
  auto parsed = ChatTemplate::parse(text, timed_template_options());
  if (!parsed) {
    log_warning("start", concat("the model's chat template cannot be used: ", parsed.error().message()));
    return std::unique_ptr<ChatTemplate>();
  }
  return std::make_unique<ChatTemplate>(*std::move(parsed));
}

Result<boost::json::object> default_template_kwargs(const std::string& text) {
  if (text.empty()) return boost::json::object();
  boost::system::error_code error;
  boost::json::value value = boost::json::parse(text, error);
  if (error || !value.is_object())
    return invalid_argument("--default-chat-template-kwargs is not a JSON object");
  for (const auto& entry : value.get_object())
    if (is_reserved_template_name(entry.key()))
      return invalid_argument(concat("--default-chat-template-kwargs: '", std::string_view(entry.key()),
                                     "' is set by each conversation"));
  return std::move(value.get_object());
}

}  // namespace pagoda
