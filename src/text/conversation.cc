#include "text/conversation.h"

#include <cstdint>

namespace pagoda {

std::string Content::joined() const {
  std::string out;
  for (const ContentPart& part : parts) {
    if (&part != parts.data()) out.push_back('\n');
    out.append(part.text);
  }
  return out;
}

void Content::add(const Content& more) {
  std::string text = joined();
  const std::string next = more.joined();
  if (!text.empty() && !next.empty()) text.append("\n\n");
  *this = of(std::move(text.append(next)));
}

ToolCall ToolCall::of(std::string_view id, std::string_view name, ToolArguments arguments) {
  ToolCall out{.shown = {{"id", id}, {"type", "function"}, {"function", {{"name", name}}}}};
  out.set_arguments(std::move(arguments));
  return out;
}

void ToolCall::set_arguments(ToolArguments arguments) {
  boost::json::value& shown_arguments = function()["arguments"];
  if (arguments.is_object)
    shown_arguments = std::move(arguments.object);
  else
    shown_arguments = arguments.text;
  arguments_text = std::move(arguments.text);
}

std::string short_call_id(std::string_view id) {
  constexpr std::string_view kDigits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  constexpr std::size_t kLength = 9;
  if (id.size() == kLength && id.find_first_not_of(kDigits) == std::string_view::npos) return std::string(id);
  std::uint64_t hash = 1469598103934665603U;  // FNV-1a
  for (const char c : id) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  std::string out;
  for (; out.size() < kLength; hash /= kDigits.size()) out += kDigits[hash % kDigits.size()];
  return out;
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
