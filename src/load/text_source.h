#pragma once
// TextSource: reads a file through one fixed buffer and tracks the line number for messages. The length of a
// line is bounded, so a file without newlines needs no more memory than others.
// Threads: none.
#include <cstdint>
#include <istream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace pagoda {

class TextSource {
 public:
  // Owns `stream`; `name` is used in messages.
  TextSource(std::unique_ptr<std::istream> stream, std::string name);

  // Returns the next bytes without consuming them: at least `bytes` unless the file ends, at most the buffer.
  std::string_view peek(std::size_t bytes);
  // Returns the next byte, or -1 at the end.
  int get() {
    if (begin_ == end_ && !fill()) return -1;
    const char byte = buffer_[begin_++];
    line_ += byte == '\n';
    return static_cast<unsigned char>(byte);
  }
  // Reads the next nonblank line without its end ("\n" or "\r\n"). Returns false at the end of the file.
  // corrupt_data: the line is longer than max_bytes.
  Result<bool> next_line(std::string& line, std::size_t max_bytes);

  // Returns corrupt_data with "NAME:LINE: " before the message, for the line last returned by next_line().
  Status error(const std::string& message) const;
  Status error_at(std::int64_t line, const std::string& message) const;
  // Returns the line number, from 1, of the byte that get() returns next.
  std::int64_t line() const { return line_; }

 private:
  bool fill();  // returns false at the end

  std::unique_ptr<std::istream> stream_;
  std::string name_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;
  std::int64_t line_ = 1;
  std::int64_t given_line_ = 1;
};

}  // namespace pagoda
