#pragma once
// Warnings: what a request asked for and the server leaves out although it answers. The client is told in one
// Warning header (RFC 7234 §5.5), and the log has each kind once. Not errors: those refuse the request.
// Threads: none; is_new_to_log() from any.
#include <string>
#include <string_view>
#include <vector>

namespace pagoda {

class Warnings {
 public:
  // `path` names the field, `problem` says in half a sentence what is left out and why.
  void add(std::string_view path, std::string_view problem);
  bool empty() const { return texts_.empty(); }
  const std::vector<std::string>& texts() const { return texts_; }
  // The header's value: printable ASCII of at most 2 KiB. Empty: there is nothing to tell.
  std::string header() const;

 private:
  std::vector<std::string> texts_;
};

// `text` as far as it is a short name, which a log or a header may repeat; else "?".
std::string_view name_or_mark(std::string_view text);
// True the first time for each `text`; after some hundreds of them never again.
bool is_new_to_log(std::string text);

}  // namespace pagoda
