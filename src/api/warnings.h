#pragma once
// Warnings: parts of a request that the server ignores while it answers the rest. The client gets one Warning
// header (RFC 7234 §5.5), and each kind is logged once. Errors, in contrast, refuse the request. Threads:
// none; any for is_new_to_log().
#include <string>
#include <string_view>
#include <vector>

namespace pagoda {

class Warnings {
 public:
  // `path` names the field; `problem` states what is ignored and why.
  void add(std::string_view path, std::string_view problem);
  void add_all(const Warnings& others);
  bool empty() const { return texts_.empty(); }
  const std::vector<std::string>& texts() const { return texts_; }
  // The header's value: printable ASCII of at most 2 KiB. Empty: no warnings.
  std::string header() const;

 private:
  std::vector<std::string> texts_;
};

// `text` if it is a short name that is safe in a log or a header; otherwise "?".
std::string_view name_or_mark(std::string_view text);
// True the first time for each `text`; after some hundreds of texts always false.
bool is_new_to_log(std::string text);

}  // namespace pagoda
