#pragma once
// StringBuilder: concatenates strings and tracks which bytes came from the context. Values created from it
// are charged to the render, so that no template keeps text that was not charged.
#include <string>
#include <string_view>
#include <vector>

#include "jinja/value.h"

namespace pagoda::jinja {

class StringBuilder {
 public:
  void append(std::string_view text, bool user = false);
  void append(const String& text) { append(text, 0, text.bytes.size()); }
  void append(const String& text, std::size_t begin, std::size_t end);  // bytes [begin, end)

  std::size_t size() const { return bytes_.size(); }
  const std::string& bytes() const { return bytes_; }
  Value take(Render& render, bool markup = false);
  Value take_charged() {
    return Value::string(String(std::move(bytes_), std::move(user_), false));
  }  // the bytes were charged by the code that appended them
  std::string take_bytes() { return std::move(bytes_); }
  std::vector<ByteRange> take_user() { return std::move(user_); }

 private:
  void mark(std::size_t begin, std::size_t end);
  std::string bytes_;
  std::vector<ByteRange> user_;
};

// Bytes [begin, end); keeps Markup.
Value substring(Render& render, const String& text, std::size_t begin, std::size_t end);

}  // namespace pagoda::jinja
