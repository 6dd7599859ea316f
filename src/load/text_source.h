#pragma once
// TextSource: a file's bytes in order, through one fixed buffer, with the line number for messages. Lines are
// bounded: a file without newlines costs no more memory than a file with them.
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
  // Owns `stream`; `name` is how messages call it.
  TextSource(std::unique_ptr<std::istream> stream, std::string name);

  // The next bytes, without taking them: at least `bytes` where the file has them, at most the buffer.
  std::string_view peek(std::size_t bytes);
  // The next byte; -1 at the end.
  int get() {
    if (begin_ == end_ && !fill()) return -1;
    const char byte = buffer_[begin_++];
    line_ += byte == '\n';
    return static_cast<unsigned char>(byte);
  }
  // The next line that is not blank, without its end ("\n" or "\r\n"); false at the end of the file.
  // corrupt_data: longer than max_bytes.
  Result<bool> next_line(std::string& line, std::size_t max_bytes);

  // corrupt_data with "NAME:LINE: " before the message; the line that next_line() gave last.
  Status error(const std::string& message) const;
  Status error_at(std::int64_t line, const std::string& message) const;
  // The line of the byte that get() gives next, from 1.
  std::int64_t line() const { return line_; }

 private:
  bool fill();  // false at the end

  std::unique_ptr<std::istream> stream_;
  std::string name_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;
  std::int64_t line_ = 1;
  std::int64_t given_line_ = 1;
};

}  // namespace pagoda
