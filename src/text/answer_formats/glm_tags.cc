// "f\n<arg_key>k</arg_key>\n<arg_value>v</arg_value>\n": GLM-4.5 and later, Ling 3, Poolside; Hunyuan 3 has
// <tool_sep> after the name. A key without a value is not an argument.
#include <algorithm>

#include "text/answer_formats/json_scanner.h"
#include "text/answer_formats/python_literals.h"
#include "text/answer_formats/tag_calls.h"

namespace pagoda::answer {
namespace {

constexpr std::string_view kKey = "<arg_key>";
constexpr std::string_view kKeyEnd = "</arg_key>";
constexpr std::string_view kValue = "<arg_value>";
constexpr std::string_view kValueEnd = "</arg_value>";

using AddArgument = void (*)(TagCall& call, std::string_view key, std::string_view text,
                             const ToolTypes& tools);

std::optional<TagCall> read_keyed_body(std::string_view body, const BodyContext& context,
                                       std::string_view name_end_marker, AddArgument add) {
  const std::size_t name_end = std::min(body.find(name_end_marker), body.find(kKey));
  TagCall call{.name = std::string(trim(body.substr(0, name_end))), .arguments = {}};
  if (call.name.empty() || call.name.find_first_of("<{\n") != std::string::npos) return std::nullopt;
  if (name_end == std::string_view::npos) {
    // Truncated within the name, unless it happens to be a complete name.
    if (context.cut && context.tools.find(call.name) == nullptr) return std::nullopt;
    return call;
  }
  std::size_t at = name_end;
  for (;;) {
    at = body.find(kKey, at);
    if (at == std::string_view::npos) return call;
    const std::size_t key = at + kKey.size();
    const std::size_t key_end = body.find(kKeyEnd, key);
    if (key_end == std::string_view::npos) return call;
    at = key_end + kKeyEnd.size();
    const std::size_t mark = body.find_first_not_of(" \t\r\n", at);
    if (mark == std::string_view::npos || !body.substr(mark).starts_with(kValue)) continue;
    const std::size_t value = mark + kValue.size();
    std::size_t value_end = body.find(kValueEnd, value);
    at = value_end;
    if (value_end == std::string_view::npos) {
      if (context.cut) return call;
      value_end = body.size();
    }
    add(call, trim(body.substr(key, key_end - key)), body.substr(value, value_end - value), context.tools);
    if (at == std::string_view::npos) return call;
  }
}

void add_by_schema(TagCall& call, std::string_view key, std::string_view text, const ToolTypes& tools) {
  add_argument(call, key, text, tools);
}
void add_python(TagCall& call, std::string_view key, std::string_view text, const ToolTypes& tools) {
  add_argument(call, key, text, tools, {.python = true});
}
// Infers the type from the text, unless the schema accepts strings.
void add_typed(TagCall& call, std::string_view key, std::string_view text, const ToolTypes& tools) {
  const DeclaredTool* tool = tools.find(call.name);
  if (ToolTypes::allows_text(tool, ToolTypes::property(tool, key)))
    return add_argument(call, key, text, tools);
  std::optional<boost::json::value> value = parse_json(text);
  if (!value) value = parse_python_literal(text);
  call.arguments[key] = value ? *std::move(value) : boost::json::value(boost::json::string(text));
}

}  // namespace

std::optional<TagCall> read_glm(std::string_view body, const BodyContext& context) {
  return read_keyed_body(body, context, kKey, add_by_schema);
}
std::optional<TagCall> read_poolside(std::string_view body, const BodyContext& context) {
  return read_keyed_body(body, context, kKey, add_typed);
}
std::optional<TagCall> read_hunyuan_v3(std::string_view body, const BodyContext& context) {
  return read_keyed_body(body, context, "<tool_sep>", add_python);
}

}  // namespace pagoda::answer
