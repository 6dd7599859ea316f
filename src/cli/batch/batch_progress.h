#pragma once
// BatchProgress: the output file of `run-batch`, possibly from an earlier, interrupted run: which input lines
// are answered, and where to write the next answer. An answer refers to its line by the id "batch_req_LINE".
// An incomplete last line is dropped. Threads: none.
#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <string_view>

#include "base/status.h"

namespace pagoda {

class BatchProgress {
 public:
  // Opens `path`, which may already exist. invalid_argument: it is not an output of run-batch.
  static Result<BatchProgress> open(const std::string& path);

  bool answered(std::int64_t line) const { return custom_ids_.contains(line); }
  // invalid_argument: the existing answer belongs to another input.
  Status check(std::int64_t line, std::string_view custom_id) const;
  std::size_t num_answered() const { return custom_ids_.size(); }

  // Appends a line and flushes it to the operating system.
  Status write(std::string_view line);

 private:
  std::map<std::int64_t, std::string> custom_ids_;  // lines answered earlier
  std::ofstream file_;
  std::string path_;
};

std::string batch_id(std::int64_t line);

}  // namespace pagoda
