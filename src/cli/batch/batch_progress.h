#pragma once
// BatchProgress: the output of `run-batch`, which another run may have begun: which lines of the input are
// answered in it, and where the next answer goes. An answer names its line by its id, "batch_req_LINE". A
// last line that a kill has cut short is dropped. Threads: none.
#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <string_view>

#include "base/status.h"

namespace pagoda {

class BatchProgress {
 public:
  // Opens `path`, which may be there already. invalid_argument: it is not such an output.
  static Result<BatchProgress> open(const std::string& path);

  bool answered(std::int64_t line) const { return custom_ids_.contains(line); }
  // invalid_argument: the answer that is there is to another input.
  Status check(std::int64_t line, std::string_view custom_id) const;
  std::size_t num_answered() const { return custom_ids_.size(); }

  // Appends a line and hands it to the system.
  Status write(std::string_view line);

 private:
  std::map<std::int64_t, std::string> custom_ids_;  // lines that were answered before
  std::ofstream file_;
  std::string path_;
};

std::string batch_id(std::int64_t line);

}  // namespace pagoda
