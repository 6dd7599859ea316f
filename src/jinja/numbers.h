#pragma once
// Conversion between numbers and text as in Python; independent of the locale.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pagoda::jinja {

std::string format_real(double value);  // repr(float): shortest that reads back
// '%f', '%e', '%g' (by `type`, which may be upper case) with `precision` digits; `keep_zeros`: the '#' flag.
std::string format_real(double value, char type, int precision, bool keep_zeros);
std::string format_integer(std::uint64_t magnitude, int base, bool upper);

std::optional<std::int64_t> parse_integer(std::string_view text, int base);  // int(text, base)
std::optional<double> parse_real(std::string_view text);                     // float(text)
bool is_python_integer(std::string_view text);  // decimal digits as accepted by int(), of any length

double round_real(double value, std::int64_t digits);  // round(value, digits)

}  // namespace pagoda::jinja
