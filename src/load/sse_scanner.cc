#include "load/sse_scanner.h"

namespace pagoda {

bool SseScanner::take_line(std::string_view line) {
  if (line.empty()) return has_data_;
  if (!line.starts_with("data")) return false;
  line.remove_prefix(4);
  if (!line.empty() && line.front() != ':') return false;  // another field whose name begins with "data"
  if (!line.empty()) line.remove_prefix(1);
  if (line.starts_with(' ')) line.remove_prefix(1);
  if (has_data_) data_.push_back('\n');
  data_.append(line);
  has_data_ = true;
  return false;
}

}  // namespace pagoda
