#include "loader/printable.h"

#include <cstdio>

#include "base/utf8.h"

namespace pagoda {

namespace {

// Returns the length of the well-formed character at the start of `text`, which must not be empty; 0 if there
// is none.
std::size_t character_length(std::string_view text) {
  const std::size_t length = utf8_length(text.front());
  return length <= text.size() && is_valid_utf8(text.substr(0, length)) ? length : 0;
}

}  // namespace

std::string printable(std::string_view text, std::size_t max_bytes) {
  std::string out;
  while (!text.empty()) {
    if (out.size() >= max_bytes) return out + "...";
    const std::size_t length = character_length(text);
    const auto lead = static_cast<unsigned char>(text.front());
    // U+0080..U+009F are control characters too.
    const bool control = lead < 0x20 || lead == 0x7F ||
                         (length == 2 && lead == 0xC2 && static_cast<unsigned char>(text[1]) < 0xA0);
    if (length > 0 && !control) {
      out.append(text.substr(0, length));
      text.remove_prefix(length);
    } else {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\x%02X", static_cast<unsigned>(lead));
      out += escape;
      text.remove_prefix(1);
    }
  }
  return out;
}

std::string valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    if (length > 0) {
      out.append(text.substr(0, length));
      text.remove_prefix(length);
    } else {
      out += "\xEF\xBF\xBD";
      text.remove_prefix(1);
    }
  }
  return out;
}

}  // namespace pagoda
