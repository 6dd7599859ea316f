#include "api/tool_fields.h"

#include <utility>

#include "base/strings.h"

namespace pagoda {

namespace json = boost::json;

ToolSpec read_function_tool(FieldReader& tool, const json::object& value) {
  if (tool.string("type", 64).value_or("function") != "function" && tool.ok())
    tool.fail("type", "must be 'function'");
  const json::object* function = tool.object("function");
  if (tool.ok() && function == nullptr) tool.fail("function", "is required");
  if (!tool.ok()) return {};
  FieldReader inner(*function, tool.path_of("function"));
  std::optional<std::string> name = inner.string("name", kMaxToolNameBytes);
  if (!name && inner.ok()) inner.fail("name", "is required");
  const json::object* parameters = inner.object("parameters");
  const bool strict = inner.boolean("strict").value_or(false);
  if (!inner.ok()) {
    tool.fail(inner.status());
    return {};
  }
  return {.name = *std::move(name),
          .parameters = parameters == nullptr ? json::object() : *parameters,
          .strict = strict,
          .shown = value};
}

json::object read_call_arguments(FieldReader& call, std::size_t& keys_left) {
  const json::value* arguments = call.raw("arguments");
  if (arguments == nullptr || !call.ok()) return {};
  if (arguments->is_object()) return arguments->as_object();
  if (!arguments->is_string()) {
    call.fail("arguments", "must be the JSON text of an object");
    return {};
  }
  const json::string& text = arguments->as_string();
  if (text.empty()) return {};
  Result<json::value> parsed = parse_json(std::string_view(text.data(), text.size()), keys_left);
  if (!parsed && keys_left == 0)
    call.fail("arguments", concat("have, with those of other calls, over ", kMaxArgumentKeys, " keys"));
  else if (!parsed || !parsed->is_object())
    call.fail("arguments", "must be the JSON text of an object");
  if (!call.ok()) return {};
  return std::move(parsed->as_object());
}

std::string tool_call_id(std::string_view answer_id, std::size_t choice, std::int32_t call) {
  std::uint64_t hash = 1469598103934665603U;  // FNV-1a
  for (const char c : concat(answer_id, "/", choice, "/", call))
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  constexpr std::string_view kDigits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  std::string id;
  for (int i = 0; i < 9; ++i, hash /= kDigits.size()) id += kDigits[hash % kDigits.size()];
  return id;
}

}  // namespace pagoda
