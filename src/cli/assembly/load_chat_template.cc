#include "cli/assembly/load_chat_template.h"

#include <boost/json.hpp>

#include "base/log.h"
#include "base/strings.h"
#include "cli/assembly/tekken_template.h"
#include "loader/json_object.h"
#include "loader/mapped_file.h"
#include "loader/printable.h"
#include "text/chat_prompt.h"

namespace pagoda {
namespace {

constexpr std::string_view kToolUse = "tool_use";

// Reads the field "chat_template" of a JSON file: a string, a list of {"name", "template"}, or an object of
// templates by name.
void read_field(const std::string& text, ChatTemplateTexts& out) {
  const Result<boost::json::object> config = parse_json_object(text, "");
  if (!config) return;
  const boost::json::value* field = config->if_contains("chat_template");
  if (field == nullptr) return;
  if (const auto* source = field->if_string()) out.usual = *source;
  const auto take = [&out](std::string_view name, const boost::json::value* source) {
    if (source == nullptr || !source->is_string()) return;
    std::string& place = name == "default"  ? out.usual
                         : name == kToolUse ? out.tool_use
                                            : out.others[std::string(name)];
    place = source->as_string();
  };
  if (const auto* named = field->if_object())
    for (const auto& [name, source] : *named) take(name, &source);
  const auto* list = field->if_array();
  if (list == nullptr) return;
  for (const boost::json::value& entry : *list) {
    if (!entry.is_object()) continue;
    const boost::json::value* name = entry.as_object().if_contains("name");
    if (name != nullptr && name->is_string())
      take(std::string_view(name->as_string()), entry.as_object().if_contains("template"));
  }
}

std::unique_ptr<ChatTemplate> own_template(std::string text, std::string_view what) {
  if (text.empty()) return nullptr;
  auto parsed = ChatTemplate::parse(std::move(text), timed_template_options());
  if (!parsed) {
    log_warning("start", concat("the model's ", what, " cannot be used: ", parsed.error().message()));
    return nullptr;
  }
  return std::make_unique<ChatTemplate>(*std::move(parsed));
}

}  // namespace

ChatTemplateTexts chat_template_texts(const ModelSource& source) {
  ChatTemplateTexts out;
  if (const GgufFile* gguf = source.gguf()) {
    if (const auto* text = gguf->string("tokenizer.chat_template")) out.usual = *text;
    if (const auto* text = gguf->string(concat("tokenizer.chat_template.", kToolUse))) out.tool_use = *text;
    constexpr std::string_view kNamed = "tokenizer.chat_template.";
    for (const auto& [key, value] : gguf->metadata())
      if (const auto* text = std::get_if<std::string>(&value);
          text != nullptr && key.starts_with(kNamed) && key.substr(kNamed.size()) != kToolUse)
        out.others[key.substr(kNamed.size())] = *text;
    return out;
  }
  if (auto file = source.side_file("chat_template.jinja")) out.usual = *file;
  for (const char* const name : {"chat_template.json", "processor_config.json", "tokenizer_config.json"}) {
    if (!out.usual.empty()) break;
    if (const auto file = source.side_file(name)) read_field(*file, out);
  }
  if (auto file = source.side_file(concat("additional_chat_templates/", kToolUse, ".jinja")))
    out.tool_use = *file;
  // Mistral's own programs use no template.
  if (out.usual.empty() && out.others.empty() && !source.side_file("tokenizer.json"))
    if (const auto tekken = source.side_file("tekken.json")) out.usual = template_of_tekken(*tekken);
  return out;
}

namespace {

// llama.cpp's name for the most common form.
constexpr std::string_view kChatml =
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor "
    "%}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

// Returns the only template of a model without a "default" template. With several templates none is
// preferred.
std::string only_template(const ChatTemplateTexts& texts) {
  if (texts.others.size() == 1) return texts.others.begin()->second;
  std::string names;
  for (const auto& [name, text] : texts.others) names.append(names.empty() ? "" : ", ").append(name);
  if (!names.empty())
    log_warning("start",
                concat("none of the model's chat templates is the default one: --chat-template NAME ",
                       "chooses one of ", printable(names, 200)));
  return {};
}

// Returns the model's template with this name; empty if there is none.
std::string named_template(std::string_view name, const ModelSource& source) {
  const ChatTemplateTexts texts = chat_template_texts(source);
  if (name == "default") return texts.usual;
  if (name == kToolUse) return texts.tool_use;
  if (const auto found = texts.others.find(name); found != texts.others.end()) return found->second;
  if (name.find_first_of("/.") != std::string_view::npos) return {};
  return source.side_file(concat("additional_chat_templates/", name, ".jinja")).value_or("");
}

Result<std::string> chosen_text(const std::string& chosen, const ModelSource& source) {
  if (chosen.find("{{") != std::string::npos || chosen.find("{%") != std::string::npos) return chosen;
  auto text = read_text_file(chosen);
  if (text) return text;
  if (std::string named = named_template(chosen, source); !named.empty()) return named;
  if (chosen == "chatml") return std::string(kChatml);
  return text.error().annotate(
      "--chat-template takes a file, a template's text, chatml, or the name of one of "
      "the model's templates");
}

}  // namespace

Result<ChatTemplates> load_chat_templates(const std::string& chosen, const ModelSource& source) {
  ChatTemplates out;
  if (chosen.empty()) {
    ChatTemplateTexts sources = chat_template_texts(source);
    if (sources.usual.empty()) sources.usual = only_template(sources);
    out.usual = own_template(std::move(sources.usual), "chat template");
    out.tool_use = own_template(std::move(sources.tool_use), "chat template for tools");
  } else {
    auto text = chosen_text(chosen, source);
    if (!text) return text.error();
    auto parsed = ChatTemplate::parse(*std::move(text), timed_template_options());
    if (!parsed) return parsed.error().annotate("--chat-template");
    out.usual = std::make_unique<ChatTemplate>(*std::move(parsed));
  }
  for (const auto* one : {&out.usual, &out.tool_use})
    if (*one != nullptr) (void)(*one)->traits();  // computed before the first request
  return out;
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
