#include "cli/flags/flag_values.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "cli/flags/parse_size.h"

namespace pagoda::flags {
namespace {

using Shape = FlagValue::Shape;

// Returns the shortest text that parses back to `value`: "0.5", "30".
std::string shortest(double value) {
  char buffer[32];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, value);
  return {buffer, end};
}

FlagValue switch_value(Shape shape, bool& variable) {
  return {
      .shape = shape, .default_text = variable ? "on" : "", .store = [&variable](const std::string& value) {
        variable = value == "true";
        return ok_status();
      }};
}

}  // namespace

FlagValue integer(std::int64_t low, std::int64_t high, std::function<void(std::int64_t)> store) {
  const bool unlimited = high >= std::numeric_limits<std::int32_t>::max();
  const auto parse = [=, store = std::move(store)](const std::string& value) -> Status {
    std::int64_t parsed = 0;
    const char* end = value.data() + value.size();
    const auto [stop, error] = std::from_chars(value.data(), end, parsed);
    if (error != std::errc() || stop != end) {
      const auto size = parse_size(value);
      if (!size) return invalid_argument(concat("'", value, "' is not a whole number"));
      parsed = *size;
    }
    if (parsed < low || parsed > high) {
      return invalid_argument(unlimited ? concat(parsed, parsed < low ? " is less than " : " is more than ",
                                                 parsed < low ? low : high)
                                        : concat(parsed, " is not between ", low, " and ", high));
    }
    store(parsed);
    return ok_status();
  };
  return {.type = "N",
          .low = std::to_string(low),
          .high = unlimited ? std::string() : std::to_string(high),
          .store = parse};
}

FlagValue int32(std::int32_t& variable, std::int32_t low, std::int32_t high) {
  FlagValue made =
      integer(low, high, [&variable](std::int64_t value) { variable = static_cast<std::int32_t>(value); });
  made.default_text = std::to_string(variable);
  return made;
}

FlagValue int64(std::int64_t& variable, std::int64_t low, std::int64_t high) {
  FlagValue made = integer(low, high, [&variable](std::int64_t value) { variable = value; });
  made.default_text = std::to_string(variable);
  return made;
}

Result<double> parse_number(const std::string& value) {
  double parsed = 0;
  const char* end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, parsed);
  if (error != std::errc() || stop != end || !std::isfinite(parsed))
    return invalid_argument(concat("'", value, "' is not a number"));
  return parsed;
}

FlagValue number(double& variable, double low, double high) {
  const auto parse = [&variable, low, high](const std::string& value) -> Status {
    PAGODA_ASSIGN_OR_RETURN(const auto parsed, parse_number(value));
    if (parsed < low || parsed > high)
      return invalid_argument(concat(value, " is not between ", shortest(low), " and ", shortest(high)));
    variable = parsed;
    return ok_status();
  };
  return {.type = "X",
          .low = shortest(low),
          .high = shortest(high),
          .default_text = shortest(variable),
          .store = parse};
}

FlagValue choice(std::string& variable, std::vector<std::string> choices,
                 std::vector<std::pair<std::string, std::string>> aliases) {
  const auto parse = [&variable, choices, aliases = std::move(aliases)](const std::string& value) -> Status {
    for (const auto& [alias, meaning] : aliases) {
      if (value != alias) continue;
      variable = meaning;
      return ok_status();
    }
    if (std::find(choices.begin(), choices.end(), value) == choices.end()) {
      std::string listed;
      for (const std::string& one : choices) listed += (listed.empty() ? "" : ", ") + one;
      return invalid_argument(concat("'", value, "' is not one of ", listed));
    }
    variable = value;
    return ok_status();
  };
  return {.choices = std::move(choices), .default_text = variable, .store = parse};
}

FlagValue text(std::string& variable, std::string type) {
  return {.type = std::move(type), .store = [&variable](const std::string& value) {
            variable = value;
            return ok_status();
          }};
}

FlagValue texts(std::vector<std::string>& variable, std::string type) {
  // An empty value is likely an unset shell variable, which could start a server without its intended key.
  const auto parse = [&variable](const std::string& value) -> Status {
    if (value.empty()) return invalid_argument("must not be empty");
    variable.push_back(value);
    return ok_status();
  };
  return {.shape = Shape::repeated, .type = std::move(type), .store = parse};
}

FlagValue several(std::vector<std::string>& variable, std::string type) {
  FlagValue made = texts(variable, std::move(type));
  made.shape = Shape::several;
  return made;
}

FlagValue on_off(bool& variable) { return switch_value(Shape::on_off, variable); }
FlagValue on(bool& variable) { return switch_value(Shape::on, variable); }

FlagValue parsed(std::string type, std::function<Status(const std::string&)> store) {
  return {.type = std::move(type), .store = std::move(store)};
}

}  // namespace pagoda::flags
