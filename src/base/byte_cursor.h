#pragma once
// ByteCursor: reads numbers and strings from a file's bytes, front to back. Never reads past the end, even if
// the bytes are corrupt. Numbers are little-endian, like this machine's. Threads: none.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace pagoda {

class ByteCursor {
 public:
  static_assert(std::endian::native == std::endian::little);
  explicit ByteCursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::uint64_t position() const { return position_; }
  std::uint64_t remaining() const { return bytes_.size() - position_; }

  // False if fewer than sizeof(T) bytes remain.
  template <class T>
  [[nodiscard]] bool read(T& out) {
    if (remaining() < sizeof(T)) return false;
    std::memcpy(&out, bytes_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return true;
  }
  // A 64-bit length followed by that many bytes; `out` is a view into the cursor's bytes.
  [[nodiscard]] bool read(std::string_view& out) {
    std::uint64_t length = 0;
    if (!read(length) || length > remaining()) return false;
    out = {reinterpret_cast<const char*>(bytes_.data()) + position_, static_cast<std::size_t>(length)};
    position_ += length;
    return true;
  }
  [[nodiscard]] bool read(std::string& out) {
    std::string_view text;
    if (!read(text)) return false;
    out = text;
    return true;
  }

 private:
  std::span<const std::byte> bytes_;
  std::uint64_t position_ = 0;
};

}  // namespace pagoda
