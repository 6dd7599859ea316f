#include "constraint/grammar_text.h"

#include <algorithm>
#include <boost/json.hpp>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "base/utf8.h"

namespace pagoda {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxTextDepth = 64;
constexpr std::size_t kMaxChoices = 4096;

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
          constexpr char kHex[] = "0123456789abcdef";
          out.append("\\x").push_back(kHex[static_cast<unsigned char>(c) >> 4]);
          out.push_back(kHex[static_cast<unsigned char>(c) & 15]);
        } else {
          out.push_back(c);
        }
    }
  }
  return out + "\"";
}

// vLLM's older form: {"structures": [{"begin", "schema", "end"}], "triggers": […]}.
Result<json::value> newer_form(const json::object& tag) {
  const json::value* structures = tag.if_contains("structures");
  const json::value* triggers = tag.if_contains("triggers");
  if (structures == nullptr || !structures->is_array() || triggers == nullptr || !triggers->is_array())
    return invalid_argument("a structural tag needs 'format', or 'structures' and 'triggers'");
  json::array tags;
  for (const json::value& entry : structures->as_array()) {
    const json::object* one = entry.if_object();
    if (one == nullptr || !one->contains("begin") || !one->contains("end"))
      return invalid_argument("each of 'structures' needs 'begin', 'schema' and 'end'");
    const json::value* schema = one->if_contains("schema");
    json::value content = {{"type", "json_schema"},
                           {"json_schema", schema == nullptr ? json::value(true) : *schema}};
    tags.push_back(
        {{"type", "tag"}, {"begin", one->at("begin")}, {"content", content}, {"end", one->at("end")}});
  }
  return json::value{{"type", "triggered_tags"}, {"triggers", *triggers}, {"tags", tags}};
}

Status prepare_formats(json::value& value, const PatternChecks& patterns, std::vector<std::string>* dropped,
                       std::size_t depth) {
  if (depth > kMaxTextDepth) return invalid_argument("the structural tag is nested too deep");
  if (json::array* list = value.if_array()) {
    for (json::value& entry : *list)
      PAGODA_RETURN_IF_ERROR(prepare_formats(entry, patterns, dropped, depth + 1));
    return ok_status();
  }
  json::object* object = value.if_object();
  if (object == nullptr) return ok_status();
  if (json::value* schema = object->if_contains("json_schema")) {
    if (schema->is_string()) {
      PAGODA_ASSIGN_OR_RETURN(json::value parsed, parse_grammar_json(std::string_view(schema->as_string())));
      *schema = std::move(parsed);
    }
    const bool most = dropped != nullptr && object->contains(kMaxOfSchema);
    Result<json::value> prepared =
        most ? prepare_most(*schema, patterns, *dropped) : prepare_schema(*schema, patterns);
    if (!prepared) return prepared.error();
    *schema = *std::move(prepared);
    object->erase(kMaxOfSchema);
    // As for plain schemas.
    if (object->if_contains("max_whitespace_cnt") == nullptr)
      (*object)["max_whitespace_cnt"] = kMaxWhiteSpace;
  }
  for (auto& entry : *object)
    if (entry.key() != "json_schema")
      PAGODA_RETURN_IF_ERROR(prepare_formats(entry.value(), patterns, dropped, depth + 1));
  return ok_status();
}

}  // namespace

Result<json::value> parse_grammar_json(std::string_view text, std::size_t max_bytes) {
  if (text.size() > max_bytes)
    return invalid_argument(concat("it has ", text.size(), " bytes, and the limit is ", max_bytes));
  boost::system::error_code error;
  json::parse_options options;
  options.max_depth = kMaxTextDepth;
  json::value value = json::parse(text, error, {}, options);
  if (error == json::error::too_deep) return invalid_argument("it is nested more than 64 levels deep");
  if (error) return invalid_argument("it is not valid JSON");
  return value;
}

Result<std::string> choice_grammar(std::string_view choices) {
  PAGODA_ASSIGN_OR_RETURN(const json::value value, parse_grammar_json(choices));
  const json::array* list = value.if_array();
  if (list == nullptr || list->empty()) return invalid_argument("it must be a list of at least one string");
  if (list->size() > kMaxChoices)
    return invalid_argument(concat("it can have at most ", kMaxChoices, " choices"));
  std::string grammar = "root ::= ";
  for (std::size_t i = 0; i < list->size(); ++i) {
    const json::string* text = (*list)[i].if_string();
    if (text == nullptr || text->empty()) return invalid_argument("each choice must be a non-empty string");
    if (i > 0) grammar += " | ";
    grammar += quoted(*text);
  }
  return grammar;
}

Result<json::value> structural_format(std::string_view text, const PatternChecks& patterns,
                                      std::vector<std::string>* dropped) {
  PAGODA_ASSIGN_OR_RETURN(json::value value, parse_grammar_json(text, kMaxTagBytes));
  const json::object* tag = value.if_object();
  if (tag == nullptr) return invalid_argument("a structural tag must be an object");
  json::value format;
  if (const json::value* given = tag->if_contains("format")) {
    format = *given;
  } else {
    PAGODA_ASSIGN_OR_RETURN(json::value newer, newer_form(*tag));
    format = std::move(newer);
  }
  PAGODA_RETURN_IF_ERROR(prepare_formats(format, patterns, dropped, 0));
  return format;
}

Result<std::string> prepare_structural_tag(std::string_view text, const PatternChecks& patterns,
                                           std::vector<std::string>* dropped) {
  PAGODA_ASSIGN_OR_RETURN(json::value format, structural_format(text, patterns, dropped));
  return json::serialize(json::value{{"type", "structural_tag"}, {"format", std::move(format)}});
}

bool is_lark(std::string_view grammar) { return grammar.find("::=") == std::string_view::npos; }

namespace {

// "name[capture]: …" -> "name: …"; other lines are unchanged.
std::string without_capture(std::string_view line) {
  const auto in_name = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  const std::size_t open = static_cast<std::size_t>(std::ranges::find_if_not(line, in_name) - line.begin());
  const std::string_view rest = line.substr(open);
  const std::size_t close = rest.find("]:");
  const std::string_view inside = rest.substr(0, std::min(close, rest.size()));
  const bool captures = inside.starts_with("[capture") && inside.find(',') == std::string_view::npos;
  if (open == 0 || close == std::string_view::npos || !captures) return std::string(line);
  return concat(line.substr(0, open), rest.substr(close + 1));
}

}  // namespace

std::string plain_lark(std::string_view grammar) {
  std::string out;
  for (std::size_t at = 0; at < grammar.size();) {
    const std::size_t end = std::min(grammar.find('\n', at), grammar.size());
    const std::string_view line = grammar.substr(at, end - at);
    if (!line.starts_with("%llguidance")) out.append(without_capture(line));
    if (end < grammar.size()) out.push_back('\n');
    at = end + 1;
  }
  return out;
}

}  // namespace pagoda
