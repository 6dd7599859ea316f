#include "jinja/printf_format.h"

#include <algorithm>
#include <cmath>

#include "jinja/escape.h"
#include "jinja/numbers.h"
#include "jinja/repr.h"
#include "jinja/unicode.h"

namespace pagoda::jinja {
namespace {

struct PrintfSpec {
  bool left = false, plus = false, space = false, zero = false, alternate = false;
  std::int64_t width = 0;
  std::int64_t precision = -1;
  char type = 's';
};

class PrintfFormatter {
 public:
  PrintfFormatter(Render& render, const String& format, const Value& values)
      : render_(render), format_(format), values_(values) {}

  Value run() {
    const std::string& bytes = format_.bytes;
    std::size_t done = 0;
    for (std::size_t at = bytes.find('%'); at != std::string::npos; at = bytes.find('%', done)) {
      out_.append(format_, done, at);
      done = conversion(at + 1);
      render_.check_size(out_.size());
    }
    out_.append(format_, done, bytes.size());
    // As in CPython: anything subscriptable counts as a mapping, whose entries need not all be used.
    const bool mapping =
        values_.is(Kind::dict) || values_.is(Kind::list) || values_.is(Kind::range) || values_.is_undefined();
    const std::size_t available = values_.is(Kind::tuple) ? values_.items().size() : 1;
    if (!mapping && used_ < available) type_error("not all arguments converted during string formatting");
    return out_.take(render_, format_.markup);
  }

 private:
  char peek(std::size_t at) const {
    if (at >= format_.bytes.size()) value_error("incomplete format");
    return format_.bytes[at];
  }

  const Value& next_value() {
    if (!values_.is(Kind::tuple)) {
      if (used_++ > 0) type_error("not enough arguments for format string");
      return values_;
    }
    if (used_ >= values_.items().size()) type_error("not enough arguments for format string");
    return values_.items()[used_++];
  }

  std::int64_t number(std::size_t& at) {
    if (peek(at) == '*') {
      ++at;
      const Value& value = next_value();
      if (!value.is_integral()) type_error("* wants int");
      return value.as_integer();
    }
    std::int64_t value = 0;
    while (peek(at) >= '0' && peek(at) <= '9') {
      value = value * 10 + (format_.bytes[at++] - '0');
      if (value > INT32_MAX) value_error("width or precision too big");
    }
    return value;
  }

  std::size_t conversion(std::size_t at) {
    std::optional<Value> named;
    if (peek(at) == '(') {
      const std::size_t begin = ++at;
      for (int depth = 1; depth > 0; ++at) {
        if (peek(at) == '(') ++depth;
        if (peek(at) == ')') --depth;
      }
      if (!values_.is(Kind::dict)) type_error("format requires a mapping");
      const std::string key = format_.bytes.substr(begin, at - 1 - begin);
      render_.charge(key.size());
      const Value* found = values_.entries().find(key);
      if (found == nullptr) fail(ErrorKind::lookup, "'" + key + "'");
      named = *found;
    }
    PrintfSpec spec;
    for (bool flags = true; flags;) {
      switch (peek(at)) {
        case '-':
          spec.left = true;
          break;
        case '+':
          spec.plus = true;
          break;
        case ' ':
          spec.space = true;
          break;
        case '0':
          spec.zero = true;
          break;
        case '#':
          spec.alternate = true;
          break;
        default:
          flags = false;
      }
      if (flags) ++at;
    }
    spec.width = number(at);
    if (spec.width < 0) {
      spec.left = true;
      spec.width = -std::max<std::int64_t>(spec.width, -INT32_MAX);
    }
    if (peek(at) == '.') {
      ++at;
      spec.precision = std::max<std::int64_t>(number(at), 0);
    }
    while (peek(at) == 'l' || peek(at) == 'h' || peek(at) == 'L') ++at;
    spec.type = peek(at++);
    if (spec.type == '%') {
      out_.append("%");
      return at;
    }
    render_.check_size(static_cast<std::size_t>(std::max(spec.width, spec.precision)));
    convert(spec, named ? *named : next_value());
    return at;
  }

  void convert(const PrintfSpec& spec, const Value& value) {
    switch (spec.type) {
      case 's':
      case 'r':
      case 'a':
        return text(spec, value);
      case 'c':
        return character(spec, value);
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        return integer(spec, value);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        return real(spec, value);
      default:
        value_error(std::string("unsupported format character '") + spec.type + "'");
    }
  }

  void pad(std::int64_t width) {
    if (width > 0) out_.append(std::string(static_cast<std::size_t>(width), ' '));
  }

  void text(const PrintfSpec& spec, const Value& value) {
    StringBuilder piece;
    if (spec.type == 's') {
      append_string(render_, piece, value);
    } else {
      append_repr(render_, piece, value);
      if (spec.type == 'a') {
        const std::string ascii = value.is_string() ? quote(value.text().bytes, true) : piece.bytes();
        piece = StringBuilder();
        piece.append(ascii, value.holds_user_text());
      }
    }
    Value whole = piece.take(render_);
    if (format_.markup && !(value.is_string() && value.text().markup)) {
      StringBuilder escaped;
      append_escaped(escaped, whole.text());
      whole = escaped.take(render_);
    }
    aligned(spec, whole.text());
  }

  void aligned(const PrintfSpec& spec, const String& whole) {
    const std::int64_t length =
        spec.precision < 0 ? whole.num_chars : std::min(whole.num_chars, spec.precision);
    if (!spec.left) pad(spec.width - length);
    out_.append(whole, 0, byte_offset(whole.bytes, length));
    if (spec.left) pad(spec.width - length);
  }

  void character(const PrintfSpec& spec, const Value& value) {
    if (value.is_string()) {
      if (value.text().num_chars != 1) type_error("%c requires int or char");
      PrintfSpec whole = spec;
      whole.precision = -1;
      return aligned(whole, value.text());
    }
    if (!value.is_integral()) type_error("%c requires int or char");
    const std::int64_t code = value.as_integer();
    if (code < 0 || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
      fail(ErrorKind::overflow, "%c arg not in range(0x110000)");
    }
    std::string bytes;
    append_utf8(bytes, static_cast<char32_t>(code));
    PrintfSpec whole = spec;
    whole.precision = -1;
    aligned(whole, Value::string(bytes).text());
  }

  // `sign` and `prefix` stay before the padding zeros.
  void numeric(const PrintfSpec& spec, const std::string& sign, const std::string& prefix,
               const std::string& digits, bool zeros) {
    const auto length = static_cast<std::int64_t>(sign.size() + prefix.size() + digits.size());
    const std::int64_t missing = std::max<std::int64_t>(spec.width - length, 0);
    if (!spec.left && !zeros) pad(missing);
    out_.append(sign);
    out_.append(prefix);
    if (!spec.left && zeros) out_.append(std::string(static_cast<std::size_t>(missing), '0'));
    out_.append(digits);
    if (spec.left) pad(missing);
  }

  static std::string sign_of(const PrintfSpec& spec, bool negative) {
    return negative ? "-" : spec.plus ? "+" : spec.space ? " " : "";
  }

  void integer(const PrintfSpec& spec, const Value& value) {
    const bool decimal = spec.type == 'd' || spec.type == 'i' || spec.type == 'u';
    std::int64_t number = 0;
    if (value.is_integral()) {
      number = value.as_integer();
    } else if (value.is(Kind::real) && decimal) {
      const double real_value = std::trunc(value.as_real());
      if (!(std::abs(real_value) < 9.2e18)) fail(ErrorKind::overflow, "an integer is beyond 64 bits");
      number = static_cast<std::int64_t>(real_value);
    } else {
      if (value.is_undefined()) fail_undefined(value);
      type_error(std::string("%") + spec.type + " format: a number is required, not " +
                 std::string(type_name(value)));
    }
    const bool negative = number < 0;
    const auto magnitude =
        negative ? 0 - static_cast<std::uint64_t>(number) : static_cast<std::uint64_t>(number);
    const char kind = static_cast<char>(spec.type | 0x20);
    const int base = kind == 'x' ? 16 : kind == 'o' ? 8 : 10;
    std::string digits = format_integer(magnitude, base, spec.type == 'X');
    if (static_cast<std::int64_t>(digits.size()) < spec.precision) {
      digits.insert(0, static_cast<std::size_t>(spec.precision) - digits.size(), '0');
    }
    const std::string prefix = !spec.alternate || base == 10 ? ""
                               : base == 8                   ? "0o"
                               : spec.type == 'X'            ? "0X"
                                                             : "0x";
    numeric(spec, sign_of(spec, negative), prefix, digits, spec.zero);
  }

  void real(const PrintfSpec& spec, const Value& value) {
    if (!value.is_number()) {
      if (value.is_undefined()) fail_undefined(value);
      type_error("must be real number, not " + std::string(type_name(value)));
    }
    const double number = value.as_real();
    const int precision =
        spec.precision < 0 ? 6 : static_cast<int>(std::min<std::int64_t>(spec.precision, 1 << 20));
    const bool negative = std::signbit(number) && !std::isnan(number);
    const std::string digits = format_real(std::abs(number), spec.type, precision, spec.alternate);
    numeric(spec, sign_of(spec, negative), "", digits, spec.zero);
  }

  Render& render_;
  const String& format_;
  const Value& values_;
  std::size_t used_ = 0;
  StringBuilder out_;
};

}  // namespace

Value format_printf(Render& render, const String& format, const Value& values) {
  render.work(format.bytes.size());
  return PrintfFormatter(render, format, values).run();
}

}  // namespace pagoda::jinja
