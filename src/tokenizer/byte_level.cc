#include "tokenizer/byte_level.h"

#include "base/utf8.h"

namespace pagoda {
namespace {

bool is_printable(int byte) { return (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173); }

// The byte of each alphabet character (all below U+0144), -1 for others.
std::array<std::int16_t, 0x144> make_inverse() {
  std::array<std::int16_t, 0x144> out;
  out.fill(-1);
  std::size_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte)
    out[is_printable(byte) ? static_cast<std::size_t>(byte) : next++] = static_cast<std::int16_t>(byte);
  return out;
}

}  // namespace

const std::array<std::string, 256>& byte_level_alphabet() {
  static const std::array<std::string, 256> alphabet = [] {
    std::array<std::string, 256> out;
    char32_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte)
      append_code_point(out[static_cast<std::size_t>(byte)],
                        is_printable(byte) ? static_cast<char32_t>(byte) : next++);
    return out;
  }();
  return alphabet;
}

void append_byte_level(std::string& out, std::string_view bytes) {
  const auto& alphabet = byte_level_alphabet();
  for (const char byte : bytes) out += alphabet[static_cast<unsigned char>(byte)];
}

bool append_from_byte_level(std::string& out, std::string_view text) {
  static const std::array<std::int16_t, 0x144> inverse = make_inverse();
  const std::size_t before = out.size();
  for (std::size_t at = 0; at < text.size();) {
    const auto lead = static_cast<unsigned char>(text[at]);
    std::size_t value = 0x144;
    if (lead < 0x80) {
      value = lead;
    } else if (lead < 0xE0 && at + 1 < text.size()) {
      value = static_cast<std::size_t>(lead & 0x1F) << 6 | (static_cast<unsigned char>(text[at + 1]) & 0x3F);
    }
    if (value >= inverse.size() || inverse[value] < 0) {
      out.resize(before);
      return false;
    }
    out.push_back(static_cast<char>(inverse[value]));
    at += lead < 0x80 ? 1 : 2;
  }
  return true;
}

}  // namespace pagoda
