#pragma once
// Constructors for flag values: checked numbers, sizes, choices, switches. Each parses a flag's text into a
// variable, which must outlive the row. Error messages continue after the flag's name. The default shown in
// help is the variable's value when the row is created.
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "cli/flags/flag.h"

namespace pagoda::flags {

// A whole number in [low, high]; accepts sizes such as 8k.
FlagValue integer(std::int64_t low, std::int64_t high, std::function<void(std::int64_t)> store);
FlagValue int32(std::int32_t& variable, std::int32_t low,
                std::int32_t high = std::numeric_limits<std::int32_t>::max());
FlagValue int64(std::int64_t& variable, std::int64_t low, std::int64_t high);

// A finite number in [low, high].
FlagValue number(double& variable, double low, double high);

// `aliases`: other accepted names with their meanings.
FlagValue choice(std::string& variable, std::vector<std::string> choices,
                 std::vector<std::pair<std::string, std::string>> aliases = {});

FlagValue text(std::string& variable, std::string type);

// Repeatable; each occurrence adds one nonempty value.
FlagValue texts(std::vector<std::string>& variable, std::string type);

// --x V W …
FlagValue several(std::vector<std::string>& variable, std::string type);

// --NAME and --no-NAME.
FlagValue on_off(bool& variable);

// --NAME.
FlagValue on(bool& variable);

// Any value that `store` accepts.
FlagValue parsed(std::string type, std::function<Status(const std::string&)> store);

// For use in such `store` functions. Error: "'x' is not a number".
Result<double> parse_number(const std::string& value);

}  // namespace pagoda::flags
