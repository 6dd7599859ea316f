#include "load/text_source.h"

#include <algorithm>
#include <cstring>

#include "base/strings.h"

namespace pagoda {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{64} << 10;

}  // namespace

TextSource::TextSource(std::unique_ptr<std::istream> stream, std::string name)
    : stream_(std::move(stream)), name_(std::move(name)), buffer_(kBufferBytes) {}

bool TextSource::fill() {
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (end_ == buffer_.size() || !*stream_) return end_ > 0;
  stream_->read(buffer_.data() + end_, static_cast<std::streamsize>(buffer_.size() - end_));
  end_ += static_cast<std::size_t>(stream_->gcount());
  return end_ > 0;
}

std::string_view TextSource::peek(std::size_t bytes) {
  while (end_ - begin_ < std::min(bytes, buffer_.size()) && *stream_) fill();
  return {buffer_.data() + begin_, end_ - begin_};
}

Result<bool> TextSource::next_line(std::string& line, std::size_t max_bytes) {
  for (;;) {
    line.clear();
    given_line_ = line_;
    bool ended = false;
    while (!ended) {
      if (begin_ == end_ && !fill()) break;
      const char* const start = buffer_.data() + begin_;
      const auto* newline = static_cast<const char*>(std::memchr(start, '\n', end_ - begin_));
      const std::size_t length =
          newline == nullptr ? end_ - begin_ : static_cast<std::size_t>(newline - start);
      if (line.size() + length > max_bytes) return error(concat("longer than ", max_bytes, " bytes"));
      line.append(start, length);
      begin_ += length;
      if (newline != nullptr) {
        ++begin_;
        ++line_;
        ended = true;
      }
    }
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.find_first_not_of(" \t") != std::string::npos) return true;
    if (!ended) return false;
  }
}

Status TextSource::error(const std::string& message) const { return error_at(given_line_, message); }

Status TextSource::error_at(std::int64_t line, const std::string& message) const {
  return corrupt_data(concat(name_, ":", line, ": ", message));
}

}  // namespace pagoda
