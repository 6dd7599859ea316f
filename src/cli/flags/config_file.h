#pragma once
// --config FILE: flags by name in YAML, as in vLLM: "max-model-len: 8k", with - or _. A repeatable flag takes
// a list, a switch true or false, a JSON flag a mapping. The file comes from the user, but its size and
// number of nodes are bounded and no byte is trusted. Defaults and precedence are handled in store_flags.h.
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/flags/flag.h"

namespace pagoda {

struct ConfigValue {
  std::vector<std::string> values;  // as on the command line; empty: not set in the file
  int line = 0;                     // from 1
};

// Returns the values in the order of the flags of `command`. not_found: the file cannot be read.
// invalid_argument, naming file and line: invalid YAML, an unknown key (with the nearest known one), a
// duplicate key, or a value of the wrong shape for its flag.
Result<std::vector<ConfigValue>> read_config_file(const std::string& path, const Command& command);

// The same for a text; `name` replaces the file name in messages.
Result<std::vector<ConfigValue>> parse_config(const std::string& text, const std::string& name,
                                              const Command& command);

}  // namespace pagoda
