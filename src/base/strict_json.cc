#include "base/strict_json.h"

#include <algorithm>
#include <iterator>

#include "base/strings.h"
#include "base/utf8.h"

namespace pagoda {
namespace {
constexpr std::string_view kNumbers[] = {"-Infinity", "Infinity", "NaN"};
}  // namespace

std::string strict_json(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  text = without_byte_order_mark(text);
  std::string out;
  out.reserve(text.size());
  bool in_string = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"') in_string = !in_string;
    if (in_string) {
      if (c == '\\' && at + 1 < text.size()) out += text[at++];
      out += text[at];
      continue;
    }
    if (c == ',') {
      const std::size_t next = text.find_first_not_of(kSpace, at + 1);
      if (next != std::string_view::npos && (text[next] == '}' || text[next] == ']')) continue;
    }
    const auto number = std::ranges::find_if(
        kNumbers, [&](std::string_view each) { return text.substr(at).starts_with(each); });
    if (number == std::end(kNumbers)) {
      out += c;
    } else {
      out += concat("\"", *number, "\"");
      at += number->size() - 1;
    }
  }
  return out;
}

std::string python_json(std::string_view text) {
  std::string out(text);
  for (const std::string_view number : kNumbers) {
    const std::string quoted = concat("\"", number, "\"");
    for (std::size_t at = 0; (at = out.find(quoted, at)) != std::string::npos; at += number.size())
      out.replace(at, quoted.size(), number);
  }
  return out;
}

}  // namespace pagoda
