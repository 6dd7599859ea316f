#pragma once
// Encodes numbers and strings as bytes for the run log, and decodes them. The reader never reads past the
// end; after the first error it returns zeros and ok() is false.
// Threads: none.
#include <bit>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace pagoda {

class ByteWriter {
 public:
  void byte(std::uint8_t value) { out_.push_back(static_cast<char>(value)); }
  void number(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) byte(static_cast<std::uint8_t>(value | 0x80));
    byte(static_cast<std::uint8_t>(value));
  }
  void signed_number(std::int64_t value) {
    number((static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63));
  }
  void fixed(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) byte(static_cast<std::uint8_t>(value >> (8 * i)));
  }
  void real(double value) { fixed(std::bit_cast<std::uint64_t>(value), 8); }
  void real(float value) { fixed(std::bit_cast<std::uint32_t>(value), 4); }
  void text(std::string_view value) {
    number(value.size());
    out_ += value;
  }
  const std::string& bytes() const { return out_; }

 private:
  std::string out_;
};

class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : bytes_(bytes) {}
  bool ok() const { return ok_; }
  bool at_end() const { return at_ == bytes_.size(); }
  void fail() { ok_ = false; }

  std::uint8_t byte() {
    if (!ok_ || at_ == bytes_.size()) {
      ok_ = false;
      return 0;
    }
    return static_cast<std::uint8_t>(bytes_[at_++]);
  }
  std::uint64_t number() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      const std::uint8_t next = byte();
      if (shift == 63 && next > 1) break;
      value |= static_cast<std::uint64_t>(next & 0x7F) << shift;
      if (next < 0x80) return value;
    }
    ok_ = false;
    return 0;
  }
  std::int64_t signed_number() {
    const std::uint64_t value = number();
    return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
  }
  // A value in [low, high]; any other value is an error.
  std::int64_t number_in(std::int64_t low, std::int64_t high) {
    const std::int64_t value = signed_number();
    if (value < low || value > high) ok_ = false;
    return ok_ ? value : low;
  }
  std::int32_t int32_in(std::int32_t low, std::int32_t high) {
    return static_cast<std::int32_t>(number_in(low, high));
  }
  // A number of items that take at least one byte each.
  std::size_t count() {
    const std::uint64_t value = number();
    if (value > bytes_.size() - at_) ok_ = false;
    return ok_ ? static_cast<std::size_t>(value) : 0;
  }
  std::uint64_t fixed(int bytes) {
    std::uint64_t value = 0;
    for (int i = 0; i < bytes; ++i) value |= static_cast<std::uint64_t>(byte()) << (8 * i);
    return value;
  }
  double real() { return finite(std::bit_cast<double>(fixed(8))); }
  // Log-probabilities may be minus infinity, but not NaN.
  float real32() {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(fixed(4)));
    if (value != value) ok_ = false;
    return ok_ ? value : 0;
  }
  std::string text() {
    const std::size_t size = count();
    std::string out(bytes_.substr(at_, size));
    at_ += size;
    return out;
  }

 private:
  double finite(double value) {
    if (!(value >= -std::numeric_limits<double>::max() && value <= std::numeric_limits<double>::max()))
      ok_ = false;
    return ok_ ? value : 0;
  }
  std::string_view bytes_;
  std::size_t at_ = 0;
  bool ok_ = true;
};

}  // namespace pagoda
