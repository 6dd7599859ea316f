#include "cli/commands/json_line.h"

#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>
#include <cstdio>

#include "base/strings.h"
#include "base/utf8.h"

namespace pagoda {

// ASCII, because some readers treat U+2028 and similar characters as line ends.
std::string ascii_json(std::string_view json) {
  std::string out;
  for (std::size_t at = 0; at < json.size();) {
    const char32_t c = next_code_point(json, at);
    if (c < 0x7F) {
      out += static_cast<char>(c);
      continue;
    }
    const auto escape = [&](char32_t unit) {
      char buffer[8];
      out.append(buffer, static_cast<std::size_t>(
                             std::snprintf(buffer, sizeof buffer, "\\u%04x", static_cast<unsigned>(unit))));
    };
    if (c >= 0x10000) escape(0xD800 + ((c - 0x10000) >> 10));
    escape(c >= 0x10000 ? 0xDC00 + (c & 0x3FF) : c);
  }
  return out;
}

std::string json_string(std::string_view text) {
  std::string repaired;
  Utf8LossyStream repair;
  repair.push(text, repaired);
  repair.finish(repaired);
  return boost::json::serialize(boost::json::string(repaired));
}

std::string json_line(std::string_view key, std::string_view text) {
  return concat("{\"", key, "\": ", ascii_json(json_string(text)), "}");
}

}  // namespace pagoda
