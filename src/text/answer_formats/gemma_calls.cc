// "call:f{k:<|"|>v<|"|>,n:3,o:{…},l:[…]}": Gemma 4; FunctionGemma has <escape> around its strings. Unquoted
// values are numbers, true, false, null, or words.
#include "text/answer_formats/json_scanner.h"
#include "text/answer_formats/tag_calls.h"

namespace pagoda::answer {
namespace {

namespace json = boost::json;

class ArgumentReader {
 public:
  // `whole`: the text is not truncated, so a value that reaches its end is complete. `typed_quotes`: quoted
  // text is parsed as JSON where possible, if no schema says otherwise.
  ArgumentReader(std::string_view text, std::string_view quote, const DeclaredTool* tool, bool whole,
                 bool typed_quotes)
      : text_(text), quote_(quote), tool_(tool), whole_(whole), typed_quotes_(typed_quotes) {}

  // Members up to the closing brace or the end. A value truncated by the end is omitted.
  json::object members(const json::value* properties, int depth = 0) {
    json::object out;
    const json::object* known = properties ? properties->if_object() : nullptr;
    for (skip_separators(); at_ < text_.size() && text_[at_] != '}' && !cut_; skip_separators()) {
      const std::size_t begin = at_;
      const std::size_t colon = text_.find(':', at_);
      if (colon == std::string_view::npos) {
        at_ = text_.size();
        break;
      }
      std::string_view key = trim(text_.substr(begin, colon - begin));
      if (key.starts_with(quote_) && key.ends_with(quote_) && key.size() >= 2 * quote_.size())
        key = key.substr(quote_.size(), key.size() - 2 * quote_.size());
      at_ = colon + 1;
      json::value value = any(known ? known->if_contains(key) : nullptr, depth);
      if (!cut_ || value.is_object() || value.is_array()) out[key] = std::move(value);
    }
    if (at_ < text_.size()) ++at_;
    return out;
  }

 private:
  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos)
      ++at_;
  }
  void skip_separators() {
    while (at_ < text_.size() && std::string_view(" \t\r\n,").find(text_[at_]) != std::string_view::npos)
      ++at_;
  }

  json::value any(const json::value* schema, int depth) {
    skip_space();
    if (at_ == text_.size() || depth > static_cast<int>(kMaxJsonDepth)) {
      cut_ = true;
      at_ = text_.size();
      return nullptr;
    }
    const std::string_view rest = text_.substr(at_);
    if (rest.starts_with(quote_)) {
      at_ += quote_.size();
      const std::size_t end = text_.find(quote_, at_);
      const bool open = end == std::string_view::npos;
      cut_ = open && !whole_;
      const std::string_view value = text_.substr(at_, open ? end : end - at_);
      at_ = open ? text_.size() : end + quote_.size();
      const auto typed = typed_quotes_ && schema == nullptr ? parse_json(value) : std::nullopt;
      return typed ? *typed : ToolTypes::from_text(value, tool_, schema);
    }
    const json::object* object = schema ? schema->if_object() : nullptr;
    if (rest.front() == '{') {
      ++at_;
      return members(object ? object->if_contains("properties") : nullptr, depth + 1);
    }
    if (rest.front() == '[') {
      ++at_;
      const json::value* items = object ? object->if_contains("items") : nullptr;
      json::array out;
      for (skip_separators(); at_ < text_.size() && text_[at_] != ']' && !cut_; skip_separators()) {
        const std::size_t begin = at_;
        json::value element = any(items, depth + 1);
        if (!cut_) out.push_back(std::move(element));
        if (at_ == begin) ++at_;  // an unmatched closing bracket
      }
      if (at_ < text_.size()) ++at_;
      return out;
    }
    const std::size_t end = rest.find_first_of(",}]");
    cut_ = end == std::string_view::npos && !whole_;
    const std::string_view word = trim(rest.substr(0, end));
    at_ += end == std::string_view::npos ? rest.size() : end;
    if (schema != nullptr) return ToolTypes::from_text(word, tool_, schema);
    const auto value = parse_json(word);
    return value && !value->is_string() ? *value : json::value(json::string(word));
  }

  std::string_view text_;
  std::string_view quote_;
  const DeclaredTool* tool_;
  bool whole_;
  bool typed_quotes_;
  std::size_t at_ = 0;
  bool cut_ = false;
};

std::optional<TagCall> read_quoted_body(std::string_view body, const BodyContext& context,
                                        std::string_view quote, bool typed_quotes) {
  const std::size_t brace = body.find_first_of("{(");
  if (brace == std::string_view::npos) return std::nullopt;
  std::string_view name = trim(body.substr(0, brace));
  if (name.starts_with("call")) {
    const std::string_view rest = trim(name.substr(4));
    if (rest.starts_with(':')) name = rest;
  }
  if (name.starts_with(':')) name.remove_prefix(1);
  TagCall call{.name = std::string(trim(name)), .arguments = {}};
  if (call.name.empty() || call.name.find_first_of(" \n<") != std::string::npos) return std::nullopt;
  std::string_view text = body.substr(brace + 1);
  const std::string_view closed = trim(text);
  if (body[brace] == '(' && closed.ends_with(')')) text = closed.substr(0, closed.size() - 1);
  const DeclaredTool* tool = context.tools.find(call.name);
  const json::value* properties = tool ? tool->parameters.if_contains("properties") : nullptr;
  call.arguments = ArgumentReader(text, quote, tool, !context.cut, typed_quotes).members(properties);
  return call;
}

}  // namespace

std::optional<TagCall> read_gemma4(std::string_view body, const BodyContext& context) {
  return read_quoted_body(body, context, "<|\"|>", false);
}
std::optional<TagCall> read_functiongemma(std::string_view body, const BodyContext& context) {
  return read_quoted_body(body, context, "<escape>", true);
}

}  // namespace pagoda::answer
