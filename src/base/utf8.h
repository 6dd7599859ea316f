#pragma once
// UTF-8 without a library: validation, iteration, appending, and lossy decoding, which replaces invalid bytes
// by U+FFFD. Nothing here knows Unicode properties (unicode.h).
// Source of the replacement rule: Unicode 15 §3.9, "maximal subpart"; the same as Rust's from_utf8_lossy.
// Threads: any.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace pagoda {

// True if `text` is well-formed UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF.
[[nodiscard]] bool is_valid_utf8(std::string_view text);
// The length of the longest well-formed prefix of `text`.
[[nodiscard]] std::size_t valid_utf8_prefix(std::string_view text);

// `text` without a leading U+FEFF, which editors and Python write.
inline std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  return text.starts_with(kMark) ? text.substr(kMark.size()) : text;
}

// The length in bytes of the character that starts with `lead` in well-formed text.
inline std::size_t utf8_length(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}
inline bool is_utf8_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// The character at `position` of well-formed text; advances `position` past it.
inline char32_t next_code_point(std::string_view text, std::size_t& position) {
  const auto byte = [&](std::size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[i])); };
  const char32_t lead = byte(position);
  const std::size_t length = utf8_length(text[position]);
  const std::size_t at = position;
  position += length;
  switch (length) {
    case 1:
      return lead;
    case 2:
      return (lead & 0x1F) << 6 | (byte(at + 1) & 0x3F);
    case 3:
      return (lead & 0x0F) << 12 | (byte(at + 1) & 0x3F) << 6 | (byte(at + 2) & 0x3F);
    default:
      return (lead & 0x07) << 18 | (byte(at + 1) & 0x3F) << 12 | (byte(at + 2) & 0x3F) << 6 |
             (byte(at + 3) & 0x3F);
  }
}

// The start of the character before `position` in well-formed text. Requires position > 0.
inline std::size_t previous_character(std::string_view text, std::size_t position) {
  do --position;
  while (position > 0 && is_utf8_continuation(text[position]));
  return position;
}

void append_code_point(std::string& out, char32_t code_point);

// Takes bytes and appends well-formed text; an incomplete character is held back until its remaining bytes
// arrive.
class Utf8LossyStream {
 public:
  void push(std::string_view bytes, std::string& out);
  void finish(std::string& out);  // an incomplete character becomes one U+FFFD

 private:
  std::string pending_;  // an incomplete character, at most 3 bytes
};

}  // namespace pagoda
