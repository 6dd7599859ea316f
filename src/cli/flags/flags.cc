#include "cli/flags/flags.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/strings.h"
#include "cli/flags/parse_size.h"

namespace pagoda::flags {
namespace {

// By the first of its names.
[[noreturn]] void refuse(const std::string& name, const std::string& message) {
  throw CLI::ValidationError(name.substr(0, name.find(',')), message);
}

// The shortest text that reads back as `value`: "0.5", "30".
std::string shortest(double value) {
  char buffer[32];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, value);
  return {buffer, end};
}

}  // namespace

CLI::Option* integer(CLI::App& app, const std::string& name, std::int64_t low, std::int64_t high,
                     std::function<void(std::int64_t)> store, const std::string& help) {
  const auto parse = [name, low, high, store = std::move(store)](const std::string& value) {
    std::int64_t parsed = 0;
    const char* end = value.data() + value.size();
    const auto [stop, error] = std::from_chars(value.data(), end, parsed);
    if (error != std::errc() || stop != end) {
      const auto size = parse_size(value);
      if (!size) refuse(name, concat("'", value, "' is not a whole number"));
      parsed = *size;
    }
    if (parsed < low || parsed > high) {
      if (high >= std::numeric_limits<std::int32_t>::max())
        refuse(name, concat(parsed, " is less than ", low));
      refuse(name, concat(parsed, " is not between ", low, " and ", high));
    }
    store(parsed);
  };
  return app.add_option_function<std::string>(name, parse, help)->type_name("N");
}

CLI::Option* int32(CLI::App& app, const std::string& name, std::int32_t& variable, std::int32_t low,
                   const std::string& help, std::int32_t high) {
  const auto store = [&variable](std::int64_t value) { variable = static_cast<std::int32_t>(value); };
  return integer(app, name, low, high, store, help)->default_str(std::to_string(variable));
}

CLI::Option* number(CLI::App& app, const std::string& name, double& variable, double low, double high,
                    const std::string& help) {
  const auto parse = [name, low, high, &variable](const std::string& value) {
    double parsed = 0;
    const char* end = value.data() + value.size();
    const auto [stop, error] = std::from_chars(value.data(), end, parsed);
    if (error != std::errc() || stop != end || !std::isfinite(parsed))
      refuse(name, concat("'", value, "' is not a number"));
    if (parsed < low || parsed > high)
      refuse(name, concat(value, " is not between ", shortest(low), " and ", shortest(high)));
    variable = parsed;
  };
  return app.add_option_function<std::string>(name, parse, help)
      ->type_name("X")
      ->default_str(shortest(variable));
}

CLI::Option* choice(CLI::App& app, const std::string& name, std::string& variable,
                    std::vector<std::string> choices, const std::string& help) {
  std::string listed;
  for (const std::string& one : choices) listed += (listed.empty() ? "" : ", ") + one;
  const auto parse = [name, listed, choices = std::move(choices), &variable](const std::string& value) {
    if (std::find(choices.begin(), choices.end(), value) == choices.end())
      refuse(name, concat("'", value, "' is not one of ", listed));
    variable = value;
  };
  return app.add_option_function<std::string>(name, parse, concat(help, " (", listed, ")"))
      ->type_name("")
      ->default_str(variable);
}

CLI::Option* text(CLI::App& app, const std::string& name, std::string& variable, const std::string& type,
                  const std::string& help) {
  return app.add_option(name, variable, help)->type_name(type);
}

CLI::Option* texts(CLI::App& app, const std::string& name, std::vector<std::string>& variable,
                   const std::string& type, const std::string& help) {
  // An empty value is a shell variable that was not set: a server without the key it was meant to ask for.
  const auto not_empty = [](const std::string& value) { return value.empty() ? "must not be empty" : ""; };
  return app.add_option(name, variable, help)->check(not_empty)->type_name(type)->allow_extra_args(false);
}

CLI::Option* on_off(CLI::App& app, const std::string& name, bool& variable, const std::string& help) {
  const auto store = [&variable](std::int64_t count) { variable = count > 0; };
  return app.add_flag_function(concat("--", name, ",!--no-", name), store, help);
}

}  // namespace pagoda::flags
