#include "api/declared_tools.h"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <utility>

#include "api/json.h"
#include "api/tool_fields.h"
#include "base/strings.h"

namespace pagoda {
namespace {

namespace json = boost::json;

std::string required_name(FieldReader& fields) {
  std::optional<std::string> name = fields.string("name", kMaxToolNameBytes);
  if (fields.ok() && (!name || name->empty())) fields.fail("name", "is required");
  return std::move(name).value_or("");
}

void rename(ToolSpec& tool, std::string name) {
  tool.shown["function"].as_object()["name"] = name;
  tool.name = std::move(name);
}

// A custom tool's `format`: {"type": "text"}, or {"type": "grammar"} with "syntax" and "definition" beside
// "type" (Responses) or in an object "grammar" (chat).
struct InputFormat {
  std::string syntax = {}, definition = {};
};
InputFormat read_format(FieldReader& tool) {
  InputFormat out;
  const json::object* format = tool.object("format");
  if (format == nullptr) return out;
  FieldReader outer(*format, tool.path_of("format"));
  const std::string type = outer.string("type", 64).value_or("text");
  if (outer.ok() && type != "text" && type != "grammar") outer.fail("type", "must be 'text' or 'grammar'");
  if (outer.ok() && type == "grammar") {
    const json::object* nested = outer.object("grammar");
    FieldReader inner(nested != nullptr ? *nested : *format,
                      nested != nullptr ? outer.path_of("grammar") : tool.path_of("format"));
    out.syntax = inner.string("syntax", 64).value_or("");
    if (inner.ok() && out.syntax != "lark" && out.syntax != "regex")
      inner.fail("syntax", "must be 'lark' or 'regex'");
    out.definition = inner.string("definition", kAnyLength).value_or("");
    if (inner.ok() && out.definition.empty()) inner.fail("definition", "is required");
    if (!inner.ok()) outer.fail(inner.status());
  }
  if (!outer.ok()) tool.fail(outer.status());
  return out;
}

}  // namespace

void DeclaredTools::read(FieldReader& owner, std::string_view name, Warnings& warnings) {
  if (const json::array* list = owner.array(name, kMaxTools)) read_list(owner, name, *list, "", warnings);
}

void DeclaredTools::read_list(FieldReader& owner, std::string_view name, const json::array& list,
                              std::string_view group, Warnings& warnings) {
  for (std::size_t i = 0; i < list.size() && owner.ok(); ++i) {
    const std::string path = concat(name, ".", i);
    const json::object* value = list[i].if_object();
    if (value == nullptr) return owner.fail(path, "must be an object");
    FieldReader tool(*value, owner.path_of(path));
    read_tool(tool, *value, group, warnings);
    if (!tool.ok()) owner.fail(tool.status());
  }
  if (tools_.size() > kMaxTools) owner.fail(name, concat("must have at most ", kMaxTools, " tools"));
}

void DeclaredTools::read_tool(FieldReader& tool, const json::object& value, std::string_view group,
                              Warnings& warnings) {
  const bool plain = protocol_ == ToolProtocol::chat && value.contains("function");  // vLLM's default
  const std::string type = tool.string("type", 128)
                               .value_or(protocol_ == ToolProtocol::messages ? "custom"
                                         : plain                             ? "function"
                                                                             : "");
  if (tool.ok() && type.empty()) tool.fail("type", "is required");
  if (!tool.ok()) return;
  const ToolType* known = find_tool_type(type);
  if (known == nullptr)
    return tool.fail("type", concat("is '", name_or_mark(type),
                                    "', but must be 'function', 'custom' or another known type of tool"));
  switch (known->in(protocol_)) {
    case ToolForm::function:
      return read_function(tool, value, group);
    case ToolForm::custom:
      return read_custom(tool, group);
    case ToolForm::group:
      if (!group.empty()) return tool.fail("type", "cannot be 'namespace' inside a namespace");
      return read_group(tool, warnings);
    case ToolForm::known: {
      const std::string name = required_name(tool);
      json::object parameters = json::parse(known->parameters).as_object();
      if (tool.ok())
        add({.group = {},
             .name = name,
             .spec = ToolSpec::of(name, known->description, std::move(parameters))});
      return;
    }
    case ToolForm::left_out:
      left_out_.insert(type);
      if (const json::value* name = tool.raw("name"); name != nullptr && name->is_string())
        left_out_.insert(std::string(name->as_string()));
      return warnings.add(tool.path_of("type"), concat("a tool of the type '", name_or_mark(type),
                                                       "' is not run by this server and is left out"));
  }
}

void DeclaredTools::read_function(FieldReader& tool, const json::object& value, std::string_view group) {
  if (protocol_ == ToolProtocol::chat) {
    ToolSpec spec = read_function_tool(tool, value);
    if (tool.ok()) add({.group = std::string(group), .name = spec.name, .spec = std::move(spec)});
    return;
  }
  const std::string_view schema = protocol_ == ToolProtocol::messages ? "input_schema" : "parameters";
  const std::string name = required_name(tool);
  const std::string description = tool.string("description", kAnyLength).value_or("");
  const json::object* parameters = tool.object(schema);
  const bool strict = tool.boolean("strict").value_or(false);
  if (tool.ok() && parameters == nullptr && protocol_ == ToolProtocol::messages)
    tool.fail(schema, "is required");
  if (!tool.ok()) return;
  Tool read{.group = std::string(group), .name = name};
  read.spec = ToolSpec::of(name, description, parameters == nullptr ? json::object() : *parameters);
  read.spec.strict = strict;
  add(std::move(read));
}

void DeclaredTools::read_custom(FieldReader& tool, std::string_view group) {
  const json::object* nested = tool.object("custom");
  if (tool.ok() && nested == nullptr && protocol_ == ToolProtocol::chat) tool.fail("custom", "is required");
  if (!tool.ok()) return;
  const auto read = [&](FieldReader& fields) {
    const std::string name = required_name(fields);
    std::string description = fields.string("description", kAnyLength).value_or("");
    const InputFormat format = read_format(fields);
    if (!fields.ok()) return;
    if (!format.definition.empty())
      description.append(description.empty() ? "" : "\n\n")
          .append(concat("The input follows this ",
                         format.syntax == "regex" ? "regular expression" : "Lark grammar", ":\n",
                         format.definition));
    Tool made{.group = std::string(group), .name = name, .custom = true};
    made.spec = ToolSpec::of(name, description,
                             {{"type", "object"},
                              {"properties", {{"input", {{"type", "string"}}}}},
                              {"required", json::array{"input"}},
                              {"additionalProperties", false}});
    made.spec.text = {.syntax = format.syntax, .grammar = format.definition};
    add(std::move(made));
  };
  if (nested == nullptr) return read(tool);
  FieldReader inner(*nested, tool.path_of("custom"));
  read(inner);
  if (!inner.ok()) tool.fail(inner.status());
}

void DeclaredTools::read_group(FieldReader& tool, Warnings& warnings) {
  const std::string name = required_name(tool);
  const std::string description = tool.string("description", kAnyLength).value_or("");
  const json::array* members = tool.array("tools", kMaxTools);
  if (tool.ok() && members == nullptr) tool.fail("tools", "is required");
  if (!tool.ok()) return;
  const std::size_t first = tools_.size();
  read_list(tool, "tools", *members, name, warnings);
  if (!tool.ok() || description.empty() || first >= tools_.size()) return;
  // The group's description goes into its first tool only.
  json::object& function = tools_[first].spec.shown["function"].as_object();
  const json::value* own = function.if_contains("description");
  function["description"] = own != nullptr && own->is_string()
                                ? concat(description, "\n\n", std::string_view(own->as_string()))
                                : description;
}

void DeclaredTools::add(Tool tool) {
  const auto same = std::ranges::find_if(
      tools_, [&](const Tool& known) { return known.group == tool.group && known.name == tool.name; });
  if (same == tools_.end())
    tools_.push_back(std::move(tool));
  else
    *same = std::move(tool);
}

bool DeclaredTools::shows(std::string_view name) const {
  return std::ranges::any_of(tools_, [&](const Tool& tool) { return tool.spec.name == name; });
}

void DeclaredTools::settle() {
  for (Tool& tool : tools_)
    if (!tool.group.empty()) tool.spec.name.clear();
  for (Tool& tool : tools_) {
    if (tool.group.empty()) continue;
    std::string name = concat(tool.group, "__", tool.name);
    while (shows(name)) name.push_back('_');
    rename(tool.spec, std::move(name));
  }
}

std::string DeclaredTools::find(std::string_view group, std::string_view name) const {
  const Tool* best = nullptr;
  for (const Tool& tool : tools_) {
    if (tool.name != name || (!group.empty() && tool.group != group)) continue;
    if (best == nullptr || tool.group.empty()) best = &tool;
  }
  return best == nullptr ? std::string() : best->spec.name;
}

std::string DeclaredTools::model_name(std::string_view group, std::string_view name) const {
  std::string declared = find(group, name);
  if (!declared.empty()) return declared;
  return group.empty() ? std::string(name) : concat(group, "__", name);
}

std::vector<std::string> DeclaredTools::tools_of(std::string_view group) const {
  std::vector<std::string> out;
  for (const Tool& tool : tools_)
    if (tool.group == group) out.push_back(tool.spec.name);
  return out;
}

void DeclaredTools::restrict_to(const std::set<std::string>& names) {
  std::erase_if(tools_, [&](const Tool& tool) { return !names.contains(tool.spec.name); });
}

ToolOrigins DeclaredTools::origins() const {
  ToolOrigins out;
  for (const Tool& tool : tools_)
    if (tool.custom || !tool.group.empty())
      out[tool.spec.name] = {.group = tool.group, .name = tool.name, .custom = tool.custom};
  return out;
}

std::vector<ToolSpec> DeclaredTools::take_tools() {
  std::vector<ToolSpec> out;
  out.reserve(tools_.size());
  for (Tool& tool : tools_) out.push_back(std::move(tool.spec));
  tools_.clear();
  return out;
}

}  // namespace pagoda
