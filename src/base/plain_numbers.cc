#include "base/plain_numbers.h"

#include <algorithm>
#include <charconv>

namespace pagoda {
namespace {

constexpr std::string_view kOfNumbers = "0123456789+-.eE";

}  // namespace

std::string plain_numbers(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  bool in_string = false;
  for (std::size_t at = 0; at < json.size();) {
    const char c = json[at];
    if (in_string && c == '\\') {
      out.append(json.substr(at, 2));
      at += 2;
      continue;
    }
    if (c == '"') in_string = !in_string;
    if (in_string || (c != '-' && (c < '0' || c > '9'))) {
      out.push_back(c);
      ++at;
      continue;
    }
    const std::size_t end = std::min(json.find_first_not_of(kOfNumbers, at), json.size());
    const std::string_view text = json.substr(at, end - at);
    at = end;
    double number = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    char buffer[40];
    if (text.find_first_of("eE") == text.npos || error != std::errc() || stop != text.data() + text.size()) {
      out.append(text);
      continue;
    }
    const auto [written, failed] = std::to_chars(buffer, buffer + sizeof buffer, number);
    out.append(failed == std::errc() ? std::string_view(buffer, written) : text);
  }
  return out;
}

}  // namespace pagoda
