#pragma once
// SseScanner: parses server-sent events from bytes that arrive in arbitrary pieces, and passes on the data of
// each event. Comments and fields other than `data` are skipped. An event that arrives in one piece is not
// copied.
// Source: WHATWG HTML §9.2, event streams.
// Threads: none.
#include <cstddef>
#include <string>
#include <string_view>

namespace pagoda {

class SseScanner {
 public:
  // Larger events are an error.
  static constexpr std::size_t kMaxEventBytes = std::size_t{16} << 20;

  // Calls event(std::string_view data) for every event that ends in `bytes`. Returns false if an event is too
  // large.
  template <class OnEvent>
  bool feed(std::string_view bytes, OnEvent&& event);

  // Call at the end of the stream. A last event without a blank line counts, too, as in common clients.
  template <class OnEvent>
  void finish(OnEvent&& event);

 private:
  // Takes a line without its end. Returns true if the line ends an event, whose data is then in data_.
  bool take_line(std::string_view line);

  std::string partial_;  // an incomplete line
  std::string data_;     // data of the current event
  bool has_data_ = false;
};

template <class OnEvent>
bool SseScanner::feed(std::string_view bytes, OnEvent&& event) {
  while (!bytes.empty()) {
    const std::size_t newline = bytes.find('\n');
    if (newline == std::string_view::npos) {
      partial_.append(bytes);
      return partial_.size() <= kMaxEventBytes;
    }
    std::string_view line = bytes.substr(0, newline);
    bytes.remove_prefix(newline + 1);
    if (!partial_.empty()) {
      partial_.append(line);
      line = partial_;
    }
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    // The common case: "data: X" and the blank line are both in `bytes`.
    const bool ends = bytes.starts_with('\n') || bytes.starts_with("\r\n");
    if (!has_data_ && ends && line.starts_with("data:")) {
      line.remove_prefix(line.size() > 5 && line[5] == ' ' ? 6 : 5);
      bytes.remove_prefix(bytes.front() == '\r' ? 2 : 1);
      event(line);
    } else if (take_line(line)) {
      event(std::string_view(data_));
      data_.clear();
      has_data_ = false;
    }
    partial_.clear();
    if (data_.size() > kMaxEventBytes) return false;
  }
  return true;
}

template <class OnEvent>
void SseScanner::finish(OnEvent&& event) {
  if (!partial_.empty()) {
    std::string_view line = partial_;
    if (line.back() == '\r') line.remove_suffix(1);
    take_line(line);
    partial_.clear();
  }
  if (has_data_) event(std::string_view(data_));
  data_.clear();
  has_data_ = false;
}

}  // namespace pagoda
