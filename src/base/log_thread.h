#pragma once
// LogThread: while one exists, log lines go through a bounded queue to a dedicated writer thread, so that a
// stalled or closed stderr loses log lines but never delays a request. SIGPIPE is ignored from construction
// on. Short-lived commands do not need it: without a LogThread, the logging thread writes its lines itself.
// Invariants: lines keep their order; lines that do not fit are counted (log_lines_dropped()) and reported in
// the log as soon as there is room. Threads: any thread may log; at most one LogThread at a time. The
// destructor waits at most one second for queued lines.
#include <cstdint>
#include <memory>
#include <string>

namespace pagoda {

class LogThread {
 public:
  LogThread();
  ~LogThread();
  LogThread(const LogThread&) = delete;

 private:
  struct Queue;
  friend bool queue_log_line(std::string& line);
  static std::shared_ptr<Queue>& current();
  std::shared_ptr<Queue> queue_;  // shared with the writer thread, which may block forever in a write
};

// For log.cc: takes the line. False, leaving the line untouched, if no LogThread exists.
bool queue_log_line(std::string& line);

// Log lines lost since the program started.
std::int64_t log_lines_dropped();
void count_dropped_log_line();

}  // namespace pagoda
