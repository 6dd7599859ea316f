#pragma once
// MsgpackWriter: appends values in MessagePack's shortest forms to a string. Covers only the part of the
// format that events need. Source: the MessagePack specification. Threads: none.
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace pagoda {

class MsgpackWriter {
 public:
  explicit MsgpackWriter(std::string& out) : out_(out) {}

  void nil() { byte(0xc0); }
  void unsigned_integer(std::uint64_t value) {
    if (value < 0x80) return byte(value);
    if (value <= 0xff) return sized(0xcc, value, 1);
    if (value <= 0xffff) return sized(0xcd, value, 2);
    if (value <= 0xffffffff) return sized(0xce, value, 4);
    sized(0xcf, value, 8);
  }
  void float64(double value) { sized(0xcb, std::bit_cast<std::uint64_t>(value), 8); }
  void text(std::string_view text) {  // below 64 KiB
    if (text.size() < 32)
      byte(0xa0 | text.size());
    else if (text.size() <= 0xff)
      sized(0xd9, text.size(), 1);
    else
      sized(0xda, text.size(), 2);
    out_.append(text);
  }
  void array(std::size_t count) {  // `count` values follow
    if (count < 16)
      byte(0x90 | count);
    else if (count <= 0xffff)
      sized(0xdc, count, 2);
    else
      sized(0xdd, count, 4);
  }
  void map(std::size_t count) { byte(0x80 | count); }  // `count` pairs of name and value follow; below 16

 private:
  void byte(std::uint64_t value) { out_.push_back(static_cast<char>(value & 0xff)); }
  void sized(std::uint64_t type, std::uint64_t value, int num_bytes) {
    byte(type);
    for (int i = num_bytes - 1; i >= 0; --i) byte(value >> (8 * i));
  }
  std::string& out_;
};

}  // namespace pagoda
