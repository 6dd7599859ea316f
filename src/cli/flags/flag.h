#pragma once
// Flag and Command: the command line as data. Each flag is one row, declared in one place; parsing, help,
// suggestions, completions, man pages, docs/flags.md, config files and environment variables are derived from
// it. Values are stored in the plain structs that a row's `value` points into, which must outlive the row. To
// add a flag: add a row to the table of its group (engine_flag_table.cc and its neighbours), or to the list
// of its command (command_table.cc). Threads: built and read by one thread, before anything else runs.
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"

namespace pagoda {

// How a flag's values are given and stored. Created by the functions of flag_values.h.
struct FlagValue {
  enum class Shape {
    one,       // --x V; if repeated, the last one counts
    repeated,  // --x V --x W: all count
    several,   // --x V W: all count
    maybe,     // --x or --x V; alone it means "true"
    on_off,    // --x and --no-x
    on,        // --x alone
  };
  Shape shape = Shape::one;
  std::string type = {};  // placeholder of the value in help: "N", "PATH"; empty if `choices` is set
  std::vector<std::string> choices = {};  // empty: any value that `store` accepts
  std::string low = {}, high = {};        // range of a number, as text; empty: no limit worth mentioning
  std::string default_text = {};          // empty: no default to show
  // Parses and stores one value. The error describes the problem with the value; the caller prepends the
  // flag's name. Switches get "true" or "false".
  std::function<Status(const std::string& value)> store = {};

  bool takes_value() const { return shape != Shape::on_off && shape != Shape::on; }
  bool takes_many() const { return shape == Shape::repeated || shape == Shape::several; }
};

struct Flag {
  std::string name = {};        // "max-model-len", without dashes; empty: positional only
  std::string positional = {};  // "MODEL": may be given without a flag name
  FlagValue value = {};
  std::string help = {};                  // one line
  std::string details = {};               // for docs/flags.md and man pages; empty: use `help`
  std::string default_text = {};          // overrides the value's
  std::string type = {};                  // overrides the value's
  std::vector<std::string> aliases = {};  // other names, including dashes: "-q", "--tp"
  std::string group = {};                 // heading in help; empty: the command's own flags
  bool required = false;
  bool hidden = false;       // omitted from help, docs and completions: vLLM flags without meaning here
  bool secret = false;       // values are wiped from the command line shown by `ps`
  bool environment = false;  // PAGODA_<NAME> sets the flag if the command line does not

  // Returns "--max-model-len", or "MODEL".
  std::string spelled() const { return name.empty() ? positional : "--" + name; }
  const std::string& shown_type() const { return type.empty() ? value.type : type; }
  const std::string& shown_default() const {
    return default_text.empty() ? value.default_text : default_text;
  }
};

struct Command {
  std::string name;  // as typed after the parent's name
  std::string summary;
  std::vector<Flag> flags = {};  // the command's own flags first
  std::vector<Command> subcommands = {};
  std::vector<std::string> aliases = {};  // other accepted names: "ls"
  // Called after the flags are stored; returns the exit code. Empty: show help.
  std::function<int()> run = {};
};

}  // namespace pagoda
