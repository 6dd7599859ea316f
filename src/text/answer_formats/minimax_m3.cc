// ' name="f">' followed by one tag per argument, "]<]minimax[>[<city>v]<]minimax[>[</city>"; nested values
// are nested tags, and list elements are <item>: MiniMax-M3.
#include <algorithm>

#include "text/answer_formats/json_scanner.h"
#include "text/answer_formats/tag_calls.h"

namespace pagoda::answer {
namespace {

namespace json = boost::json;

constexpr std::string_view kMark = "]<]minimax[>[";
constexpr int kMaxDepth = 16;

struct Element {
  std::string_view key, value;
};

// The top-level elements of `text`, ignoring the text between them. Stops at a tag that is not closed.
// Linear: tags are counted once, with a stack for one element's depth.
std::vector<Element> elements(std::string_view text) {
  std::vector<Element> out;
  std::size_t depth = 0;
  std::string_view key;
  std::size_t value = 0;
  for (std::size_t at = text.find(kMark); at != std::string_view::npos; at = text.find(kMark, at)) {
    const std::size_t tag = at + kMark.size();
    const std::size_t end = text.find('>', tag);
    if (end == std::string_view::npos || text[tag] != '<') {
      at = tag;
      continue;
    }
    const bool closes = text.substr(tag).starts_with("</");
    const std::string_view name = trim(text.substr(tag + (closes ? 2 : 1), end - tag - (closes ? 2 : 1)));
    if (!closes) {
      if (depth++ == 0) {
        key = name;
        value = end + 1;
      }
    } else if (depth > 0 && --depth == 0) {
      if (!key.empty()) out.push_back({key, text.substr(value, at - value)});
    }
    at = end + 1;
  }
  return out;
}

json::value read_value(std::string_view text, const DeclaredTool* tool, const json::value* schema,
                       int depth) {
  std::vector<Element> inner;
  if (depth < kMaxDepth && text.find(kMark) != std::string_view::npos &&
      !ToolTypes::allows_text(tool, schema))
    inner = elements(text);
  if (inner.empty()) return ToolTypes::from_text(text, tool, schema);
  const json::object* object = schema ? schema->if_object() : nullptr;
  if (std::ranges::all_of(inner, [](const Element& one) { return one.key == "item"; })) {
    const json::value* items = object ? object->if_contains("items") : nullptr;
    json::array out;
    for (const Element& one : inner) out.push_back(read_value(one.value, tool, items, depth + 1));
    return out;
  }
  const json::value* properties = object ? object->if_contains("properties") : nullptr;
  json::object out;
  for (const Element& one : inner) {
    const json::object* known = properties ? properties->if_object() : nullptr;
    out[one.key] = read_value(one.value, tool, known ? known->if_contains(one.key) : nullptr, depth + 1);
  }
  return out;
}

}  // namespace

std::optional<TagCall> read_minimax_m3(std::string_view body, const BodyContext& context) {
  const std::size_t end = body.find('>');
  if (end == std::string_view::npos) return std::nullopt;
  std::string_view name = trim(body.substr(0, end));
  if (name.size() >= 2 && (name.front() == '"' || name.front() == '\'') && name.back() == name.front())
    name = name.substr(1, name.size() - 2);
  TagCall call{.name = std::string(name), .arguments = {}};
  if (call.name.empty()) return std::nullopt;
  const DeclaredTool* tool = context.tools.find(call.name);
  for (const Element& one : elements(body.substr(end + 1)))
    call.arguments[one.key] = read_value(one.value, tool, ToolTypes::property(tool, one.key), 0);
  return call;
}

}  // namespace pagoda::answer
