#include "text/conversation.h"

namespace pagoda {

std::string Content::joined() const {
  std::string out;
  for (const ContentPart& part : parts) {
    if (&part != parts.data()) out.push_back('\n');
    out.append(part.text);
  }
  return out;
}

ToolCall ToolCall::of(std::string_view id, std::string_view name, boost::json::object arguments) {
  boost::json::object function{{"name", name}, {"arguments", std::move(arguments)}};
  return {.shown = {{"id", id}, {"type", "function"}, {"function", std::move(function)}}};
}

ToolSpec ToolSpec::of(std::string_view name, std::string_view description, boost::json::object parameters) {
  boost::json::object function{{"name", name}};
  if (!description.empty()) function["description"] = description;
  function["parameters"] = parameters;
  return {.name = std::string(name),
          .parameters = std::move(parameters),
          .shown = {{"type", "function"}, {"function", std::move(function)}}};
}

}  // namespace pagoda
