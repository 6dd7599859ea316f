#pragma once
// --config FILE: flags by name in YAML, as vLLM takes them: "max-model-len: 8k", with - or _. A flag that may
// be repeated takes a list, a switch true or false, a flag of JSON a mapping. The file is the user's, but no
// byte of it is trusted: size and nodes are bounded. Holds no defaults and decides no precedence: see
// store_flags.h.
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/flags/flag.h"

namespace pagoda {

struct ConfigValue {
  std::vector<std::string> values;  // as they would stand on the command line; empty: the file says nothing
  int line = 0;                     // from 1
};

// By flag of `command`. not_found: the file cannot be read. invalid_argument, naming file and line: no YAML,
// a key that no flag has (with the nearest one), a key given twice, a value of another shape than the flag
// takes.
Result<std::vector<ConfigValue>> read_config_file(const std::string& path, const Command& command);

// The same of a text; `name` stands for the file in messages.
Result<std::vector<ConfigValue>> parse_config(const std::string& text, const std::string& name,
                                              const Command& command);

}  // namespace pagoda
