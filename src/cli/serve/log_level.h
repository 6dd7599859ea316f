#pragma once
// --log-level: applied at start, and again from the file of --config on SIGHUP. Threads: any.
#include "base/status.h"
#include "cli/flags/engine_flags.h"

namespace pagoda {

// Accepts "debug", "INFO", …; invalid_argument: an unknown name.
Status set_log_level_by_name(const std::string& name);

// Rereads the level from the file, unless the command line or the environment set one at start.
class LogLevelReload {
 public:
  explicit LogLevelReload(const EngineFlags& flags);
  void operator()() const;  // logs the result

 private:
  std::string config_;  // empty: nothing to reread
  std::string first_;   // the level at start
};

}  // namespace pagoda
