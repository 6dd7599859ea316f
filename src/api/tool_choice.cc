#include "api/tool_choice.h"

#include <optional>
#include <set>

#include "api/tool_fields.h"
#include "base/strings.h"

namespace pagoda {
namespace {

namespace json = boost::json;
using ChoiceKind = ToolChoice::Kind;

std::optional<ChoiceKind> kind_of(std::string_view word) {
  if (word == "auto") return ChoiceKind::automatic;
  if (word == "none") return ChoiceKind::none;
  if (word == "required" || word == "any") return ChoiceKind::required;  // "any" is Mistral's
  return std::nullopt;
}

// The tools that {"type": "function", "name": …} or {"type": "function", "function": {"name": …}} refers to,
// by the names shown to the model. Empty if it refers to a tool that was left out.
std::vector<std::string> referred(FieldReader& reference, const DeclaredTools& tools) {
  const std::string type = reference.string("type", 128).value_or("function");
  if (!reference.ok()) return {};
  if (tools.left_out(type)) return {};
  if (type != "function" && type != "custom" && type != "namespace") {
    reference.fail("type", concat("is '", name_or_mark(type), "', which is not a tool that can be called"));
    return {};
  }
  const json::object* nested = reference.object(type);
  const json::object none;
  FieldReader inner(nested != nullptr ? *nested : none, reference.path_of(type));
  FieldReader& fields = nested != nullptr ? inner : reference;
  const std::optional<std::string> name = fields.string("name", kMaxToolNameBytes);
  const std::string group = fields.string("namespace", kMaxToolNameBytes).value_or("");
  if (fields.ok() && !name)
    fields.fail(nested == nullptr && tools.protocol() == ToolProtocol::chat ? type : "name", "is required");
  if (!fields.ok()) {
    reference.fail(fields.status());
    return {};
  }
  if (type == "namespace") return tools.tools_of(*name);
  std::string shown = tools.find(group, *name);
  if (shown.empty()) return {*name};
  return {std::move(shown)};
}

// {"mode": "auto" | "required", "tools": […]}
ToolChoice read_allowed(FieldReader& allowed, DeclaredTools& tools) {
  const std::string mode = allowed.string("mode", 64).value_or("auto");
  if (allowed.ok() && mode != "auto" && mode != "required")
    allowed.fail("mode", "must be 'auto' or 'required'");
  const json::array* list = allowed.array("tools", kMaxTools);
  if (allowed.ok() && list == nullptr) allowed.fail("tools", "is required");
  std::set<std::string> names;
  for (std::size_t i = 0; allowed.ok() && i < list->size(); ++i) {
    const std::string path = concat("tools.", i);
    const json::object* entry = (*list)[i].if_object();
    if (entry == nullptr) {
      allowed.fail(path, "must be an object");
      break;
    }
    FieldReader reader(*entry, allowed.path_of(path));
    for (std::string& name : referred(reader, tools)) {
      if (!tools.shows(name)) reader.fail("name", "is not the name of one of 'tools'");
      names.insert(std::move(name));
    }
    if (!reader.ok()) allowed.fail(reader.status());
  }
  tools.restrict_to(names);
  return {.kind = mode == "required" ? ChoiceKind::required : ChoiceKind::automatic};
}

ToolChoice read_object(FieldReader& choice, DeclaredTools& tools) {
  const std::string type = choice.string("type", 128).value_or("function");
  if (choice.ok() && type == "allowed_tools") {
    const json::object* nested = choice.object("allowed_tools");
    if (nested == nullptr) return read_allowed(choice, tools);
    FieldReader inner(*nested, choice.path_of("allowed_tools"));
    const ToolChoice out = read_allowed(inner, tools);
    if (!inner.ok()) choice.fail(inner.status());
    return out;
  }
  if (choice.ok() && tools.left_out(type))
    choice.fail("type", concat("is '", name_or_mark(type), "', a tool that this server does not run"));
  const std::vector<std::string> names = referred(choice, tools);
  if (choice.ok() && names.size() != 1) choice.fail("type", "must name one tool");
  return {.kind = ChoiceKind::named, .name = choice.ok() ? names.front() : std::string()};
}

}  // namespace

ToolChoice read_tool_choice(FieldReader& fields, DeclaredTools& tools) {
  const json::value* value = fields.raw("tool_choice", {"string", "object"});
  if (value == nullptr) return {};
  ToolChoice choice;
  if (const json::object* object = value->if_object()) {
    FieldReader reader(*object, "tool_choice");
    choice = read_object(reader, tools);
    if (!reader.ok()) fields.fail(reader.status());
  } else {
    const std::optional<ChoiceKind> kind =
        value->is_string() ? kind_of(std::string_view(value->as_string())) : std::nullopt;
    if (!kind) fields.fail("tool_choice", "must be 'none', 'auto', 'required' or an object");
    choice.kind = kind.value_or(ChoiceKind::automatic);
  }
  if (choice.forced() && tools.empty() && tools.any_left_out())
    fields.fail("tool_choice", "forces a call, but this server can offer none of 'tools' to the model");
  return choice;
}

}  // namespace pagoda
