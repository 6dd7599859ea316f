#pragma once
// Helpers over CLI11 that this program's flags share: checked numbers, sizes, choices. Each parses one
// flag's text into a variable and says what is wrong in one line that names the flag.
// Only for the few .cc files that declare flags: CLI11 is slow to compile.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace pagoda::flags {

// A whole number in [low, high]; sizes such as 8k are understood.
CLI::Option* integer(CLI::App& app, const std::string& name, std::int64_t low, std::int64_t high,
                     std::function<void(std::int64_t)> store, const std::string& help);

CLI::Option* int32(CLI::App& app, const std::string& name, std::int32_t& variable, std::int32_t low,
                   const std::string& help, std::int32_t high = std::numeric_limits<std::int32_t>::max());

// A finite number in [low, high].
CLI::Option* number(CLI::App& app, const std::string& name, double& variable, double low, double high,
                    const std::string& help);

// One of `choices`.
CLI::Option* choice(CLI::App& app, const std::string& name, std::string& variable,
                    std::vector<std::string> choices, const std::string& help);

CLI::Option* text(CLI::App& app, const std::string& name, std::string& variable, const std::string& type,
                  const std::string& help);

// Repeatable; one value each time.
CLI::Option* texts(CLI::App& app, const std::string& name, std::vector<std::string>& variable,
                   const std::string& type, const std::string& help);

// --NAME and --no-NAME.
CLI::Option* on_off(CLI::App& app, const std::string& name, bool& variable, const std::string& help);

}  // namespace pagoda::flags
