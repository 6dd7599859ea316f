#pragma once
// Flag and Command: the command line as data. Each flag is one row, declared in one place; parsing, help,
// hints, completions, man pages, docs/flags.md, config files and environment variables are made from it.
// Not the values: those land in the plain structs that a row's `value` points into, which outlive the row.
// To add a flag: one row in the table of its group (engine_flag_table.cc and its neighbours), or in the list
// of its command (command_table.cc). Threads: built and read by one thread, before anything else runs.
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"

namespace pagoda {

// How a flag takes values, and where they go. Made by the functions of flag_values.h.
struct FlagValue {
  enum class Shape {
    one,       // --x V; given twice, the last counts
    repeated,  // --x V --x W: all count
    several,   // --x V W: all count
    maybe,     // --x or --x V; alone it is "true"
    on_off,    // --x and --no-x
    on,        // --x alone
  };
  Shape shape = Shape::one;
  std::string type = {};  // placeholder of the value in help: "N", "PATH"; empty where choices say it
  std::vector<std::string> choices = {};  // empty: anything that `store` takes
  std::string low = {}, high = {};        // range of a number, as text; empty: no limit worth telling
  std::string default_text = {};          // empty: none to tell
  // Parses one value into its place. An error says what is wrong with the value; the caller puts the flag's
  // name before it. The two switches get "true" or "false".
  std::function<Status(const std::string& value)> store = {};

  bool takes_value() const { return shape != Shape::on_off && shape != Shape::on; }
  bool takes_many() const { return shape == Shape::repeated || shape == Shape::several; }
};

struct Flag {
  std::string name = {};        // "max-model-len", without dashes; empty: positional only
  std::string positional = {};  // "MODEL": may stand without a name
  FlagValue value = {};
  std::string help = {};                  // one line
  std::string details = {};               // for docs/flags.md and man pages instead of `help`; empty: as help
  std::string default_text = {};          // instead of the value's
  std::string type = {};                  // instead of the value's
  std::vector<std::string> aliases = {};  // other names, with their dashes: "-q", "--tp"
  std::string group = {};                 // heading in help; empty: the command's own
  bool required = false;
  bool hidden = false;       // left out of help, docs and completions: vLLM's flags that mean nothing here
  bool secret = false;       // its values are wiped from the command line that `ps` shows
  bool environment = false;  // PAGODA_<NAME> sets it where the command line does not

  // "--max-model-len", or "MODEL".
  std::string spelled() const { return name.empty() ? positional : "--" + name; }
  const std::string& shown_type() const { return type.empty() ? value.type : type; }
  const std::string& shown_default() const {
    return default_text.empty() ? value.default_text : default_text;
  }
};

struct Command {
  std::string name;  // as typed after its parent's
  std::string summary;
  std::vector<Flag> flags = {};  // its own first
  std::vector<Command> subcommands = {};
  std::vector<std::string> aliases = {};  // other names that are understood: "ls"
  std::function<int()> run = {};          // once the flags are stored; empty: help is shown. The exit code
};

}  // namespace pagoda
