#include "jinja/str_format.h"

#include <algorithm>
#include <cmath>

#include "jinja/numbers.h"
#include "jinja/repr.h"
#include "jinja/unicode.h"

namespace pagoda::jinja {
namespace {

struct FormatSpec {
  std::string fill = " ";
  char align = '\0';
  char sign = '\0';
  bool alternate = false;
  std::int64_t width = 0;
  char grouping = '\0';
  std::int64_t precision = -1;
  char type = '\0';
};

bool is_align(char32_t c) { return c == '<' || c == '>' || c == '=' || c == '^'; }

std::int64_t parse_count(std::string_view spec, std::size_t& at) {
  std::int64_t value = 0;
  for (; at < spec.size() && spec[at] >= '0' && spec[at] <= '9'; ++at) {
    value = value * 10 + (spec[at] - '0');
    if (value > INT32_MAX) value_error("Too many decimal digits in format string");
  }
  return value;
}

FormatSpec parse_spec(std::string_view text, bool is_text) {
  FormatSpec spec;
  std::size_t at = 0;
  bool has_fill = false;
  if (!text.empty()) {
    std::size_t after_fill = 0;
    const char32_t first = next_char(text, after_fill);
    if (after_fill < text.size() && is_align(static_cast<unsigned char>(text[after_fill]))) {
      spec.fill = std::string(text.substr(0, after_fill));
      spec.align = text[after_fill];
      has_fill = true;
      at = after_fill + 1;
    } else if (is_align(first)) {
      spec.align = text[0];
      at = 1;
    }
  }
  const auto peek = [&] { return at < text.size() ? text[at] : '\0'; };
  if (peek() == '+' || peek() == '-' || peek() == ' ') spec.sign = text[at++];
  if (peek() == 'z') ++at;
  if (peek() == '#') {
    spec.alternate = true;
    ++at;
  }
  if (!has_fill && peek() == '0') {
    spec.fill = "0";
    if (spec.align == '\0' && !is_text) spec.align = '=';
    ++at;
  }
  spec.width = parse_count(text, at);
  if (peek() == ',' || peek() == '_') spec.grouping = text[at++];
  if (peek() == '.') {
    ++at;
    if (peek() < '0' || peek() > '9') value_error("Format specifier missing precision");
    spec.precision = parse_count(text, at);
  }
  if (at + 1 < text.size()) value_error("Invalid format specifier");
  if (at < text.size()) spec.type = text[at];
  return spec;
}

std::string group(const std::string& digits, char separator, std::size_t size) {
  std::string out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i != 0 && (digits.size() - i) % size == 0) out += separator;
    out += digits[i];
  }
  return out;
}

void append_repeated(StringBuilder& out, const std::string& fill, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) out.append(fill);
}

// Pads `prefix` (sign and base) and `body`; '=' inserts the padding between them.
Value align(Render& render, const FormatSpec& spec, char fallback, const std::string& prefix,
            const String& body) {
  const char how = spec.align == '\0' ? fallback : spec.align;
  const std::int64_t missing =
      std::max<std::int64_t>(spec.width - body.num_chars - static_cast<std::int64_t>(prefix.size()), 0);
  const std::int64_t before = how == '>' ? missing : how == '^' ? missing / 2 : 0;
  StringBuilder out;
  append_repeated(out, spec.fill, before);
  out.append(prefix);
  if (how == '=') append_repeated(out, spec.fill, missing);
  out.append(body);
  if (how != '=') append_repeated(out, spec.fill, missing - before);
  return out.take(render);
}

[[noreturn]] void unknown_code(const FormatSpec& spec, const Value& value) {
  value_error(std::string("Unknown format code '") + spec.type + "' for object of type '" +
              std::string(type_name(value)) + "'");
}

std::string sign_of(const FormatSpec& spec, bool negative) {
  return negative ? "-" : spec.sign == '+' ? "+" : spec.sign == ' ' ? " " : "";
}

// The fewest digits that, with separators and `others`, are at least `width` wide. Separators precede every
// group of `size` from the right, except the first group of the number.
std::size_t digits_for(std::size_t width, std::size_t others, std::size_t size) {
  if (width <= others) return 0;
  const std::size_t room = width - others;
  return room - (room - 1) / (size + 1);
}

Value number_text(Render& render, const FormatSpec& spec, const std::string& prefix, std::string digits,
                  std::size_t group_size) {
  if (spec.grouping != '\0') {
    // Excludes the e of 1e+22.
    const char* of_base = group_size == 4 ? "0123456789abcdefABCDEF" : "0123456789";
    const std::size_t end = std::min(digits.find_first_not_of(of_base), digits.size());
    std::string whole = digits.substr(0, end);
    if (spec.fill == "0" && spec.align == '=' && end != 0) {  // padding zeros are grouped, too
      const std::size_t others = prefix.size() + digits.size() - end;
      const std::size_t wanted = digits_for(static_cast<std::size_t>(spec.width), others, group_size);
      if (wanted > end) whole.insert(0, wanted - end, '0');
    }
    digits = group(whole, spec.grouping, group_size) + digits.substr(end);
  }
  const Value body = Value::string(std::move(digits));
  return align(render, spec, '>', prefix, body.text());
}

Value format_integer_field(Render& render, const FormatSpec& spec, const Value& value) {
  const std::int64_t number = value.as_integer();
  const bool negative = number < 0;
  const auto magnitude =
      negative ? 0 - static_cast<std::uint64_t>(number) : static_cast<std::uint64_t>(number);
  if (spec.precision >= 0) value_error("Precision not allowed in integer format specifier");
  int base = 10;
  std::string prefix = sign_of(spec, negative);
  switch (spec.type) {
    case '\0':
    case 'd':
    case 'n':
      break;
    case 'b':
      base = 2;
      break;
    case 'o':
      base = 8;
      break;
    case 'x':
    case 'X':
      base = 16;
      break;
    case 'c': {
      if (spec.sign != '\0' || spec.alternate) value_error("Sign and '#' are not allowed with 'c'");
      if (spec.grouping != '\0') value_error("Cannot specify a separator with 'c'");
      if (negative || number > 0x10FFFF || (number >= 0xD800 && number < 0xE000)) {
        fail(ErrorKind::overflow, "%c arg not in range(0x110000)");
      }
      std::string bytes;
      append_utf8(bytes, static_cast<char32_t>(number));
      return align(render, spec, '<', "", Value::string(bytes).text());
    }
    default:
      unknown_code(spec, value);
  }
  if (spec.alternate && base != 10)
    prefix += base == 2 ? "0b" : base == 8 ? "0o" : spec.type == 'X' ? "0X" : "0x";
  if (spec.grouping != '\0' && spec.type == 'n') value_error("Cannot specify a separator with 'n'");
  if (spec.grouping == ',' && base != 10)
    value_error(std::string("Cannot specify ',' with '") + spec.type + "'.");
  return number_text(render, spec, prefix, format_integer(magnitude, base, spec.type == 'X'),
                     base == 10 ? 3 : 4);
}

// The empty type: like repr(), with `precision` significant digits; like 'g', except that at least one digit
// follows the decimal point.
std::string general_real(double value, std::int64_t given_precision, bool keep_zeros) {
  if (given_precision < 0 || !std::isfinite(value)) return format_real(value);
  const int precision = static_cast<int>(std::max<std::int64_t>(given_precision, 1));
  std::string text = format_real(value, 'e', precision - 1, keep_zeros);
  const std::size_t e = text.find('e');
  const auto exponent = static_cast<int>(parse_integer(text.substr(e + 1), 10).value_or(0));
  const auto strip = [&](std::string digits) {
    if (keep_zeros || digits.find('.') == std::string::npos) return digits;
    digits.resize(digits.find_last_not_of('0') + 1);
    if (digits.ends_with('.')) digits.pop_back();
    return digits;
  };
  if (exponent < -4 || exponent >= precision - 1) return strip(text.substr(0, e)) + text.substr(e);
  text = strip(format_real(value, 'f', precision - 1 - exponent, keep_zeros));
  return text.find('.') == std::string::npos ? text + ".0" : text;
}

Value format_real_field(Render& render, const FormatSpec& spec, const Value& value) {
  const double number = value.as_real();
  const bool negative = std::signbit(number) && !std::isnan(number);
  const double magnitude = std::abs(number);
  if (spec.precision > (1 << 20)) value_error("precision too big");
  if (spec.type == 'n' && spec.grouping != '\0') value_error("Cannot specify a separator with 'n'.");
  const int precision = spec.precision < 0 ? 6 : static_cast<int>(spec.precision);
  std::string digits;
  switch (spec.type) {
    case '\0':
      digits = general_real(magnitude, spec.precision, spec.alternate);
      break;
    case 'n':
      digits = format_real(magnitude, 'g', precision, spec.alternate);
      break;
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
      digits = format_real(magnitude, spec.type, precision, spec.alternate);
      break;
    case '%':
      digits = format_real(magnitude * 100, 'f', precision, spec.alternate) + "%";
      break;
    default:
      unknown_code(spec, value);
  }
  return number_text(render, spec, sign_of(spec, negative), std::move(digits), 3);
}

Value format_string_field(Render& render, const FormatSpec& spec, const Value& value) {
  if (spec.type != '\0' && spec.type != 's') unknown_code(spec, value);
  if (spec.sign != '\0') value_error("Sign not allowed in string format specifier");
  if (spec.alternate) value_error("Alternate form (#) not allowed in string format specifier");
  if (spec.align == '=') value_error("'=' alignment not allowed in string format specifier");
  if (spec.grouping != '\0') value_error("Cannot specify ',' with 's'.");
  const String& text = value.text();
  if (spec.precision < 0 || spec.precision >= text.num_chars) return align(render, spec, '<', "", text);
  const Value cut = substring(render, text, 0, byte_offset(text.bytes, spec.precision));
  return align(render, spec, '<', "", cut.text());
}

class StringFormatter {
 public:
  StringFormatter(Render& render, const Arguments& arguments) : render_(render), arguments_(arguments) {}

  Value run(const String& format, int depth) {
    if (depth < 0) value_error("Max string recursion exceeded");
    StringBuilder out;
    const std::string& bytes = format.bytes;
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t brace = std::min(bytes.find_first_of("{}", at), bytes.size());
      out.append(format, at, brace);
      if (brace == bytes.size()) break;
      if (brace + 1 < bytes.size() && bytes[brace + 1] == bytes[brace]) {
        out.append(format, brace, brace + 1);
        at = brace + 2;
        continue;
      }
      if (bytes[brace] == '}') value_error("Single '}' encountered in format string");
      at = field(bytes, brace + 1, depth, out);
      render_.check_size(out.size());
    }
    return out.take(render_, format.markup);
  }

 private:
  std::size_t field(const std::string& bytes, std::size_t begin, int depth, StringBuilder& out) {
    std::size_t end = begin;
    for (int open = 1;; ++end) {
      if (end >= bytes.size()) value_error("expected '}' before end of string");
      if (bytes[end] == '{') ++open;
      if (bytes[end] == '}' && --open == 0) break;
    }
    const std::string_view whole(bytes.data() + begin, end - begin);
    std::size_t name_end = 0;
    for (bool bracket = false; name_end < whole.size(); ++name_end) {
      const char c = whole[name_end];
      if (c == '[') bracket = true;
      if (c == ']') bracket = false;
      if (!bracket && (c == '!' || c == ':')) break;
      if (c == '{') value_error("unexpected '{' in field name");
    }
    Value value = look_up(whole.substr(0, name_end));
    std::string_view rest = whole.substr(name_end);
    if (rest.starts_with('!')) {
      if (rest.size() < 2) value_error("end of string while looking for conversion specifier");
      value = convert(rest[1], value);
      rest = rest.substr(2);
      if (!rest.empty() && rest[0] != ':') value_error("expected ':' after conversion specifier");
    }
    std::string spec;
    if (!rest.empty()) {
      const Value inner = Value::string(std::string(rest.substr(1)));
      const Value expanded = run(inner.text(), depth - 1);
      spec = expanded.text().bytes;
    }
    const Value text = format_field(render_, value, spec);
    out.append(text.text());
    return end + 1;
  }

  Value convert(char how, const Value& value) {
    StringBuilder out;
    if (how == 's') {
      append_string(render_, out, value);
    } else if (how == 'r') {
      append_repr(render_, out, value);
    } else if (how == 'a') {
      append_repr(render_, out, value);
      if (value.is_string()) {
        std::string quoted = quote(value.text().bytes, true);
        render_.charge(quoted.size());
        return Value::string(std::move(quoted), value.holds_user_text());
      }
    } else {
      value_error(std::string("Unknown conversion specifier ") + how);
    }
    return out.take(render_);
  }

  Value look_up(std::string_view name) {
    const std::size_t first_end = std::min(name.find_first_of(".["), name.size());
    Value value = first(name.substr(0, first_end));
    for (std::size_t at = first_end; at < name.size();) {
      if (name[at] == '.') {
        const std::size_t end = std::min(name.find_first_of(".[", at + 1), name.size());
        if (end == at + 1) value_error("Empty attribute in format string");
        value = render_.attribute(value, Value::string(std::string(name.substr(at + 1, end - at - 1))));
        at = end;
      } else {
        const std::size_t end = name.find(']', at);
        if (name[at] != '[' || end == std::string_view::npos) value_error("Missing ']' in format string");
        const std::string_view key = name.substr(at + 1, end - at - 1);
        if (key.empty()) value_error("Empty attribute in format string");
        const auto index = all_digits(key) ? parse_integer(key, 10) : std::nullopt;
        value = render_.item(value, index ? Value::integer(*index) : Value::string(std::string(key)));
        at = end + 1;
        if (at < name.size() && name[at] != '.' && name[at] != '[') {
          value_error("Only '.' or '[' may follow ']' in format field specifier");
        }
      }
    }
    return value;
  }

  static bool all_digits(std::string_view text) {
    return !text.empty() &&
           std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  }

  Value first(std::string_view name) {
    if (name.empty() || all_digits(name)) {
      if (name.empty() ? explicit_ : next_ > 0) {
        value_error("cannot mix automatic field numbering and manual field specification");
      }
      std::size_t index = next_;
      if (name.empty()) {
        ++next_;
      } else {
        explicit_ = true;
        index = static_cast<std::size_t>(parse_integer(name, 10).value_or(INT64_MAX));
      }
      if (index >= arguments_.positional.size()) {
        fail(ErrorKind::lookup,
             "Replacement index " + std::to_string(index) + " out of range for positional args tuple");
      }
      return arguments_.positional[index];
    }
    render_.step(static_cast<std::int64_t>(arguments_.keyword.size()));
    for (const auto& [keyword, value] : arguments_.keyword) {
      if (keyword == name) return value;
    }
    fail(ErrorKind::lookup, "'" + std::string(name) + "'");
  }

  Render& render_;
  const Arguments& arguments_;
  std::size_t next_ = 0;
  bool explicit_ = false;
};

}  // namespace

Value format_field(Render& render, const Value& value, std::string_view text) {
  const FormatSpec spec = parse_spec(text, value.is_string());
  render.check_size(static_cast<std::size_t>(spec.width));
  render.work(static_cast<std::size_t>(spec.width));
  if (value.is_string()) return format_string_field(render, spec, value);
  if (text.empty()) return to_string(render, value);
  const bool as_real =
      value.is(Kind::real) || (value.is_integral() && spec.type != '\0' &&
                               std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos);
  if (as_real) return format_real_field(render, spec, value);
  if (value.is_integral()) return format_integer_field(render, spec, value);
  type_error("unsupported format string passed to " + std::string(type_name(value)) + ".__format__");
}

Value format_string(Render& render, const String& format, const Arguments& arguments) {
  render.work(format.bytes.size());
  return StringFormatter(render, arguments).run(format, 2);
}

}  // namespace pagoda::jinja
