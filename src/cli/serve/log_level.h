#pragma once
// --log-level: taken at start, and again from the file of --config on SIGHUP. Threads: any.
#include "base/status.h"
#include "cli/flags/engine_flags.h"

namespace pagoda {

// "debug", "INFO", … ; invalid_argument: none of them.
Status set_log_level_by_name(const std::string& name);

// Reads the level from the file again, unless the command line or the environment set one at the start.
class LogLevelReload {
 public:
  explicit LogLevelReload(const EngineFlags& flags);
  void operator()() const;  // says in the log what came of it

 private:
  std::string config_;  // empty: nothing to read
  std::string first_;   // the level at start
};

}  // namespace pagoda
