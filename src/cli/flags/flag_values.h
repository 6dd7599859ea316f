#pragma once
// Values of flags: checked numbers, sizes, choices, switches. Each parses a flag's text into a variable,
// which must outlive the row, and reports an error in words that follow the flag's name. The default in help
// is the variable's value at the time of declaration.
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "cli/flags/flag.h"

namespace pagoda::flags {

// A whole number in [low, high]; sizes such as 8k are understood.
FlagValue integer(std::int64_t low, std::int64_t high, std::function<void(std::int64_t)> store);
FlagValue int32(std::int32_t& variable, std::int32_t low,
                std::int32_t high = std::numeric_limits<std::int32_t>::max());
FlagValue int64(std::int64_t& variable, std::int64_t low, std::int64_t high);

// A finite number in [low, high].
FlagValue number(double& variable, double low, double high);

// `aliases`: other names that are taken, and what each means.
FlagValue choice(std::string& variable, std::vector<std::string> choices,
                 std::vector<std::pair<std::string, std::string>> aliases = {});

FlagValue text(std::string& variable, std::string type);

// Repeatable; one value each time, which must not be empty.
FlagValue texts(std::vector<std::string>& variable, std::string type);

// --x V W …
FlagValue several(std::vector<std::string>& variable, std::string type);

// --NAME and --no-NAME.
FlagValue on_off(bool& variable);

// --NAME.
FlagValue on(bool& variable);

// Whatever `store` takes.
FlagValue parsed(std::string type, std::function<Status(const std::string&)> store);

// Helpers for such functions. nullopt-like errors as Status: "'x' is not a number".
Result<double> parse_number(const std::string& value);

}  // namespace pagoda::flags
