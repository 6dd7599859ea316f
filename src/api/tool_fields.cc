#include "api/tool_fields.h"

#include <boost/json/serialize.hpp>
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
  ToolSpec out{.name = *std::move(name),
               .parameters = parameters == nullptr ? json::object() : *parameters,
               .strict = strict,
               .shown = value};
  out.shown["type"] = "function";
  return out;
}

ToolArguments read_call_arguments(FieldReader& call, std::string_view name, std::size_t& keys_left) {
  ToolArguments out;
  const json::value* arguments = call.raw(name, {"string", "object"});
  if (arguments == nullptr || !call.ok()) return out;
  if (arguments->is_object()) {
    out.object = arguments->as_object();
    return out;
  }
  out.text = arguments->is_string() ? std::string(arguments->as_string()) : json::serialize(*arguments);
  if (out.text.empty()) return out;
  Result<json::value> parsed = parse_json(out.text, keys_left);
  if (!parsed && keys_left == 0)
    call.fail(name, concat("have, with those of other calls, over ", kMaxArgumentKeys, " keys"));
  out.is_object = parsed && parsed->is_object();
  if (out.is_object) out.object = std::move(parsed->as_object());
  return out;
}

std::string tool_call_id(std::string_view answer_id, std::size_t choice, std::int32_t call) {
  return short_call_id(concat(answer_id, "/", choice, "/", call));
}

}  // namespace pagoda
