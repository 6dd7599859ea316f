#include "base/utf8.h"

#include <cstring>

namespace pagoda {
namespace {

enum class Scan { complete, incomplete, invalid };

// Examines the character that starts at `text[at]`. `length` is the length of the character, or of the
// maximal subpart to be replaced (invalid) or to be completed later (incomplete).
Scan scan_character(std::string_view text, std::size_t at, std::size_t& length) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(at);
  length = 1;
  if (lead < 0x80) return Scan::complete;
  std::size_t needed = 0;
  unsigned char low = 0x80, high = 0xBF;  // valid range of the second byte
  if (lead >= 0xC2 && lead <= 0xDF) {
    needed = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    needed = 3;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    needed = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return Scan::invalid;
  }
  while (length < needed) {
    if (at + length == text.size()) return Scan::incomplete;
    const unsigned char next = byte(at + length);
    if (next < low || next > high) return Scan::invalid;
    low = 0x80, high = 0xBF;
    ++length;
  }
  return Scan::complete;
}

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

}  // namespace

std::size_t valid_utf8_prefix(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    while (at + 8 <= text.size()) {  // ASCII, eight bytes at a time
      std::uint64_t word;
      std::memcpy(&word, text.data() + at, 8);
      if (word & 0x8080808080808080ull) break;
      at += 8;
    }
    if (at == text.size()) break;
    std::size_t length = 0;
    if (scan_character(text, at, length) != Scan::complete) break;
    at += length;
  }
  return at;
}

bool is_valid_utf8(std::string_view text) { return valid_utf8_prefix(text) == text.size(); }

void append_code_point(std::string& out, char32_t c) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(static_cast<unsigned char>(byte))); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6), put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12), put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18), put(0x80 | (c >> 12 & 0x3F)), put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
  }
}

void Utf8LossyStream::push(std::string_view bytes, std::string& out) {
  if (!pending_.empty()) {  // complete the pending character byte by byte: at most three rounds
    std::size_t used = 0;
    while (!pending_.empty() && used < bytes.size()) {
      pending_.push_back(bytes[used]);
      std::size_t length = 0;
      const Scan scan = scan_character(pending_, 0, length);
      if (scan == Scan::incomplete) {
        ++used;
      } else if (scan == Scan::complete) {
        ++used;
        out += pending_;
        pending_.clear();
      } else {  // the new byte does not continue it: replace the pending bytes and start over
        out += kReplacement;
        pending_.clear();
      }
    }
    bytes.remove_prefix(used);
  }
  while (!bytes.empty()) {
    const std::size_t good = valid_utf8_prefix(bytes);
    out += bytes.substr(0, good);
    bytes.remove_prefix(good);
    if (bytes.empty()) break;
    std::size_t length = 0;
    if (scan_character(bytes, 0, length) == Scan::incomplete) {
      pending_ = bytes;
      break;
    }
    out += kReplacement;
    bytes.remove_prefix(length);
  }
}

void Utf8LossyStream::finish(std::string& out) {
  if (!pending_.empty()) out += kReplacement;
  pending_.clear();
}

}  // namespace pagoda
