#pragma once
// LogThread: while one lives, log lines go into a bounded queue and a thread of its own writes them, so that
// a reader of stderr that stands still or has gone costs lines, never a request. SIGPIPE is ignored from its
// start on. Not needed by commands that end by themselves: without one, lines are written where they arise.
// Invariants: lines keep their order; what does not fit is counted (log_lines_dropped()) and said in the log
// as soon as there is room. Threads: log calls from any; one LogThread at a time. Its end waits a second at
// most for what is queued.
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
  std::shared_ptr<Queue> queue_;  // shared with its thread, which may hang in a write for ever
};

// For log.cc: takes the line; false, with the line untouched, where no LogThread lives.
bool queue_log_line(std::string& line);

// Lines lost since the start of the program.
std::int64_t log_lines_dropped();
void count_dropped_log_line();

}  // namespace pagoda
