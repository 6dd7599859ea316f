// ' "f"><parameter name="k">v</parameter>' after "<invoke name=": MiniMax-M2, dots, DeepSeek V3.2 and V4
// (DSML, which states for each value whether it is text), Step 3, Muse Glimmer, MiniCPM5. Names are in either
// kind of quotes, or unquoted.
#include <algorithm>

#include "text/answer_formats/json_scanner.h"
#include "text/answer_formats/tag_calls.h"

namespace pagoda::answer {
namespace {

struct InvokeTags {
  std::string_view open;  // start of a parameter, up to its name
  std::string_view close;
  bool trimmed = false;  // white space around a value is markup
};

// Removes a quoted or unquoted name from the beginning of `text` and returns it.
std::string_view take_name(std::string_view& text) {
  const std::size_t begin = std::min(text.find_first_not_of(" \t\r\n"), text.size());
  text.remove_prefix(begin);
  std::string_view name;
  if (!text.empty() && (text.front() == '"' || text.front() == '\'')) {
    const std::size_t end = text.find(text.front(), 1);
    if (end == std::string_view::npos) return {};
    name = text.substr(1, end - 1);
    text.remove_prefix(end + 1);
  } else {
    const std::size_t end = std::min(text.find_first_of(" \t\r\n>/"), text.size());
    name = text.substr(0, end);
    text.remove_prefix(end);
  }
  return trim(name);
}

// Removes the rest of a tag's attributes, up to and including '>', from `text` and returns them; nullopt if
// there is no '>'.
std::optional<std::string_view> take_attributes(std::string_view& text) {
  const std::size_t end = text.find('>');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view attributes = text.substr(0, end);
  text.remove_prefix(end + 1);
  return attributes;
}

struct Parameter {
  std::string_view key, value;
  bool is_text = true;  // false if an attribute marks it as JSON
};
struct Invocation {
  std::string name;
  std::vector<Parameter> parameters;
};

std::optional<Invocation> read_invocation(std::string_view body, bool cut, const InvokeTags& tags) {
  std::string_view rest = body;
  Invocation call{.name = std::string(take_name(rest)), .parameters = {}};
  if (call.name.empty() || call.name.find_first_of("<\n") != std::string::npos) return std::nullopt;
  if (!take_attributes(rest)) {
    if (cut) return std::nullopt;
    return call;
  }
  NextFinder next_open(body, tags.open);
  NextFinder next_close(body, tags.close);
  for (std::size_t at = next_open.from(body.size() - rest.size()); at != std::string_view::npos;) {
    rest = body.substr(at + tags.open.size());
    Parameter parameter;
    parameter.key = take_name(rest);
    const std::optional<std::string_view> attributes = take_attributes(rest);
    if (!attributes) break;
    parameter.is_text = attributes->find("\"false\"") == std::string_view::npos;
    const std::size_t value = body.size() - rest.size();
    at = next_open.from(value);
    std::size_t end = std::min(next_close.from(value), at);
    if (end == std::string_view::npos) {
      if (cut) break;
      end = body.size();
    }
    parameter.value = body.substr(value, end - value);
    if (!parameter.key.empty()) call.parameters.push_back(parameter);
  }
  return call;
}

std::optional<TagCall> read_bare(std::string_view body, const BodyContext& context, const InvokeTags& tags) {
  std::optional<Invocation> invocation = read_invocation(body, context.cut, tags);
  if (!invocation) return std::nullopt;
  TagCall call{.name = std::move(invocation->name), .arguments = {}};
  for (const Parameter& parameter : invocation->parameters)
    add_argument(call, parameter.key, tags.trimmed ? trim(parameter.value) : parameter.value, context.tools);
  return call;
}

// Unwraps arguments that are all inside one parameter unknown to the schema: {"arguments": {…}}.
void unwrap(boost::json::object& arguments, const DeclaredTool* tool) {
  if (arguments.size() != 1 || tool == nullptr) return;
  const boost::json::value* properties = tool->parameters.if_contains("properties");
  if (properties == nullptr || !properties->is_object() || properties->get_object().empty()) return;
  const boost::json::object& known = properties->get_object();
  const std::string_view key = arguments.begin()->key();
  if ((key != "arguments" && key != "input") || known.contains(key)) return;
  boost::json::value inner = arguments.begin()->value();
  if (inner.is_string()) {
    const auto parsed = parse_json(std::string_view(inner.get_string().data(), inner.get_string().size()));
    if (!parsed) return;
    inner = *parsed;
  }
  if (!inner.is_object()) return;
  for (const auto& member : inner.get_object())
    if (!known.contains(member.key())) return;
  for (auto& member : inner.get_object())
    member.value() =
        ToolTypes::coerced(std::move(member.value()), tool, ToolTypes::property(tool, member.key()));
  arguments = std::move(inner.get_object());
}

std::string unescaped(std::string_view text) {
  static constexpr std::pair<std::string_view, char> kEntities[] = {
      {"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}, {"&#39;", '\''}};
  std::string out;
  while (!text.empty()) {
    std::size_t taken = 1;
    char c = text.front();
    for (const auto& [entity, meant] : kEntities) {
      if (!text.starts_with(entity)) continue;
      taken = entity.size();
      c = meant;
      break;
    }
    out += c;
    text.remove_prefix(taken);
  }
  return out;
}

std::string markup_text(std::string_view value) {
  constexpr std::string_view kOpen = "<![CDATA[";
  constexpr std::string_view kClose = "]]>";
  const std::string_view inner = trim(value);
  if (inner.starts_with(kOpen) && inner.ends_with(kClose))
    return std::string(inner.substr(kOpen.size(), inner.size() - kOpen.size() - kClose.size()));
  return unescaped(value);
}

}  // namespace

std::optional<TagCall> read_invoke(std::string_view body, const BodyContext& context) {
  return read_bare(body, context, {.open = "<parameter name=", .close = "</parameter>"});
}
std::optional<TagCall> read_steptml(std::string_view body, const BodyContext& context) {
  return read_bare(body, context,
                   {.open = "<steptml:parameter name=", .close = "</steptml:parameter>", .trimmed = true});
}

std::optional<TagCall> read_atem(std::string_view body, const BodyContext& context) {
  std::optional<Invocation> invocation =
      read_invocation(body, context.cut, {.open = "<atem:parameter name=", .close = "</atem:parameter>"});
  if (!invocation) return std::nullopt;
  TagCall call{.name = std::move(invocation->name), .arguments = {}};
  const DeclaredTool* tool = context.tools.find(call.name);
  for (const Parameter& parameter : invocation->parameters) {
    const boost::json::value* schema = ToolTypes::property(tool, parameter.key);
    const auto value = parse_json(parameter.value);
    if (schema != nullptr)
      add_argument(call, parameter.key, parameter.value, context.tools);
    else
      call.arguments[parameter.key] =
          value ? *value : boost::json::value(boost::json::string(parameter.value));
  }
  return call;
}

std::optional<TagCall> read_dsml(std::string_view body, const BodyContext& context) {
  std::optional<Invocation> invocation = read_invocation(
      body, context.cut, {.open = "<｜DSML｜parameter name=", .close = "</｜DSML｜parameter>"});
  if (!invocation) return std::nullopt;
  TagCall call{.name = std::move(invocation->name), .arguments = {}};
  const DeclaredTool* tool = context.tools.find(call.name);
  for (const Parameter& parameter : invocation->parameters) {
    const auto value = parameter.is_text ? std::nullopt : parse_json(parameter.value);
    if (value)
      call.arguments[parameter.key] =
          ToolTypes::coerced(*value, tool, ToolTypes::property(tool, parameter.key));
    else
      add_argument(call, parameter.key, parameter.value, context.tools);
  }
  unwrap(call.arguments, tool);
  return call;
}

// Undeclared arguments are omitted. A repeated argument, or a missing required one: not a call.
std::optional<TagCall> read_minicpm5(std::string_view body, const BodyContext& context) {
  std::optional<Invocation> invocation =
      read_invocation(body, context.cut, {.open = "<param name=", .close = "</param>"});
  if (!invocation) return std::nullopt;
  TagCall call{.name = unescaped(invocation->name), .arguments = {}};
  const DeclaredTool* tool = context.tools.find(call.name);
  if (tool == nullptr) return std::nullopt;
  for (const Parameter& parameter : invocation->parameters) {
    const std::string key = unescaped(parameter.key);
    if (call.arguments.contains(key)) return std::nullopt;
    const boost::json::value* properties = tool->parameters.if_contains("properties");
    if (properties && properties->is_object() && !properties->get_object().contains(key)) continue;
    add_argument(call, key, markup_text(parameter.value), context.tools);
  }
  const boost::json::value* required = tool->parameters.if_contains("required");
  if (required && required->is_array()) {
    for (const boost::json::value& key : required->get_array())
      if (key.is_string() && !call.arguments.contains(key.get_string())) return std::nullopt;
  }
  return call;
}

}  // namespace pagoda::answer
