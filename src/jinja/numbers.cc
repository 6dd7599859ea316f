#include "jinja/numbers.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "jinja/unicode.h"

namespace pagoda::jinja {
namespace {

std::string non_finite(double value) { return std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf"; }

std::string to_chars(double value, std::chars_format format, int precision) {
  std::string buffer(static_cast<std::size_t>(precision) + 340, '\0');
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format, precision);
  buffer.resize(static_cast<std::size_t>(result.ptr - buffer.data()));
  return buffer;
}

std::string_view strip_space(std::string_view text) {
  std::size_t begin = 0, end = text.size();
  for (std::size_t next = begin; begin < end && is_space(next_char(text, next)); begin = next) {
  }
  for (std::size_t previous = end; end > begin && is_space(previous_char(text, previous)); end = previous) {
  }
  return text.substr(begin, end - begin);
}

// Removes the underscores that Python allows between digits; false if one stands elsewhere.
bool remove_underscores(std::string& text) {
  const auto is_digit_char = [](char c) {
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') continue;
    if (i == 0 || i + 1 == text.size() || !is_digit_char(text[i - 1]) || !is_digit_char(text[i + 1]))
      return false;
  }
  std::erase(text, '_');
  return true;
}

}  // namespace

std::string format_real(double value) {
  if (!std::isfinite(value)) return non_finite(value);
  char buffer[40];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  const std::string_view text(buffer, static_cast<std::size_t>(result.ptr - buffer));
  const std::size_t e = text.find('e');
  std::string digits(text.substr(0, e));
  int exponent = 0;
  const char* exponent_begin = text.data() + e + 1;
  if (*exponent_begin == '+') ++exponent_begin;
  std::from_chars(exponent_begin, text.data() + text.size(), exponent);
  std::string sign;
  if (digits.front() == '-') {
    sign = "-";
    digits.erase(0, 1);
  }
  std::erase(digits, '.');
  const int num_digits = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    std::string out = sign + digits.substr(0, 1);
    if (num_digits > 1) out += "." + digits.substr(1);
    const int magnitude = std::abs(exponent);
    return out + (exponent < 0 ? "e-" : "e+") + (magnitude < 10 ? "0" : "") + std::to_string(magnitude);
  }
  if (exponent < 0) return sign + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  if (exponent + 1 >= num_digits) {
    return sign + digits + std::string(static_cast<std::size_t>(exponent + 1 - num_digits), '0') + ".0";
  }
  return sign + digits.substr(0, static_cast<std::size_t>(exponent) + 1) + "." +
         digits.substr(static_cast<std::size_t>(exponent) + 1);
}

std::string format_real(double value, char type, int precision, bool keep_zeros) {
  const bool upper = type >= 'A' && type <= 'Z';
  const char kind = static_cast<char>(type | 0x20);
  std::string out;
  if (!std::isfinite(value)) {
    out = non_finite(value);
  } else if (kind == 'f') {
    out = to_chars(value, std::chars_format::fixed, precision);
    if (keep_zeros && precision == 0) out += '.';
  } else if (kind == 'e') {
    out = to_chars(value, std::chars_format::scientific, precision);
    if (keep_zeros && precision == 0) out.insert(out.find('e'), ".");
  } else {
    out = to_chars(value, std::chars_format::general, std::max(precision, 1));
    if (keep_zeros) {  // %#g: pad to the precision
      const std::size_t e = std::min(out.find('e'), out.size());
      std::string tail = out.substr(e);
      out.resize(e);
      if (out.find('.') == std::string::npos) out += '.';
      auto digits = std::count_if(out.begin(), out.end(), [](char c) { return c >= '0' && c <= '9'; });
      if (value != 0 && std::abs(value) < 1) {  // leading zeros do not count
        const std::size_t first = out.find_first_of("123456789");
        digits -= static_cast<std::ptrdiff_t>(std::count(
            out.begin(), out.begin() + static_cast<std::ptrdiff_t>(std::min(first, out.size())), '0'));
      }
      for (; digits < precision; ++digits) out += '0';
      out += tail;
    }
  }
  if (upper)
    std::transform(out.begin(), out.end(), out.begin(),
                   [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  return out;
}

std::string format_integer(std::uint64_t magnitude, int base, bool upper) {
  char buffer[70];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, magnitude, base);
  std::string out(buffer, result.ptr);
  if (upper)
    std::transform(out.begin(), out.end(), out.begin(),
                   [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  return out;
}

namespace {

// int(text, base) without the range check: the sign, the bare digits, and their base.
struct IntegerText {
  bool negative = false;
  std::string digits;
  int base = 10;
};

std::optional<IntegerText> split_integer(std::string_view text, int base) {
  std::string clean(strip_space(text));
  IntegerText out;
  std::size_t at = 0;
  if (!clean.empty() && (clean[0] == '-' || clean[0] == '+')) {
    out.negative = clean[0] == '-';
    at = 1;
  }
  out.base = base;
  bool after_prefix = false;
  if (at + 1 < clean.size() && clean[at] == '0') {
    const char letter = static_cast<char>(clean[at + 1] | 0x20);
    const int named = letter == 'b' ? 2 : letter == 'o' ? 8 : letter == 'x' ? 16 : 0;
    if (named != 0 && (base == 0 || base == named)) {
      out.base = named;
      at += 2;
      after_prefix = true;
    }
  }
  out.digits = clean.substr(at);
  if (after_prefix && out.digits.starts_with('_')) out.digits.erase(0, 1);
  if (out.base == 0) {
    out.base = 10;
    if (out.digits.size() > 1 && out.digits[0] == '0' &&
        out.digits.find_first_not_of("0_") != std::string::npos) {
      return std::nullopt;
    }
  }
  if (out.digits.empty() || !remove_underscores(out.digits)) return std::nullopt;
  for (const char c : out.digits) {
    const char letter = static_cast<char>(c | 0x20);
    const int digit = c >= '0' && c <= '9'                         ? c - '0'
                      : letter >= 'a' && letter <= 'z' && c >= 'A' ? letter - 'a' + 10
                                                                   : 99;
    if (digit >= out.base) return std::nullopt;
  }
  return out;
}

}  // namespace

std::optional<std::int64_t> parse_integer(std::string_view text, int base) {
  const auto parts = split_integer(text, base);
  if (!parts) return std::nullopt;
  const std::string signed_digits = (parts->negative ? "-" : "") + parts->digits;
  std::int64_t value = 0;
  const auto result =
      std::from_chars(signed_digits.data(), signed_digits.data() + signed_digits.size(), value, parts->base);
  if (result.ec != std::errc()) return std::nullopt;
  return value;
}

bool is_python_integer(std::string_view text) { return split_integer(text, 10).has_value(); }

std::optional<double> parse_real(std::string_view text) {
  std::string clean(strip_space(text));
  if (!remove_underscores(clean)) return std::nullopt;
  std::size_t at = 0;
  const bool negative = !clean.empty() && clean[0] == '-';
  if (!clean.empty() && (clean[0] == '-' || clean[0] == '+')) at = 1;
  const std::string_view number = std::string_view(clean).substr(at);
  if (number.empty() || number[0] == '-' || number[0] == '+') return std::nullopt;
  double value = 0;
  const auto result = std::from_chars(number.data(), number.data() + number.size(), value);
  if (result.ptr != number.data() + number.size()) return std::nullopt;
  if (result.ec == std::errc::result_out_of_range) {  // Python gives 0.0 or inf
    const std::size_t e = number.find_first_of("eE");
    const bool tiny = e != std::string_view::npos && e + 1 < number.size() && number[e + 1] == '-';
    value = tiny ? 0.0 : HUGE_VAL;
  } else if (result.ec != std::errc()) {
    return std::nullopt;
  }
  return negative ? -value : value;
}

double round_real(double value, std::int64_t digits) {
  if (!std::isfinite(value) || digits > 323) return value;
  if (digits < -308) return std::copysign(0.0, value);
  if (digits >= 0) {
    const std::string text = to_chars(value, std::chars_format::fixed, static_cast<int>(digits));
    double rounded = value;
    std::from_chars(text.data(), text.data() + text.size(), rounded);
    return rounded;
  }
  const double scale = std::pow(10.0, static_cast<double>(-digits));
  return std::nearbyint(value / scale) * scale;
}

}  // namespace pagoda::jinja
