// Predicate methods of str: isalpha() and the like.
#include <algorithm>
#include <iterator>

#include "jinja/methods.h"
#include "jinja/text_functions.h"
#include "jinja/unicode.h"

namespace pagoda::jinja {
namespace {

// True if all characters are `wanted`, and there is at least one.
template <bool (*wanted)(char32_t)>
Value method_all(Render& render, const Value& self, const Arguments& arguments) {
  const Bound bound("method", arguments, {});
  const std::string& bytes = self.text().bytes;
  render.work(bytes.size());
  for (std::size_t at = 0; at < bytes.size();) {
    if (!wanted(next_char(bytes, at))) return Value::boolean(false);
  }
  return Value::boolean(!bytes.empty());
}
template <bool (*is_case)(std::string_view)>
Value method_case(Render& render, const Value& self, const Arguments& arguments) {
  const Bound bound("method", arguments, {});
  const std::string& bytes = self.text().bytes;
  render.work(bytes.size());
  return Value::boolean(is_case(bytes));
}
Value method_is_title(Render& render, const Value& self, const Arguments& arguments) {
  const Bound bound("istitle", arguments, {});
  const std::string& bytes = self.text().bytes;
  render.work(bytes.size());
  bool any = false, in_word = false;
  for (std::size_t at = 0; at < bytes.size();) {
    const char32_t c = next_char(bytes, at);
    if (is_upper(c) || is_title(c)) {
      if (in_word) return Value::boolean(false);
      in_word = any = true;
    } else if (is_lower(c)) {
      if (!in_word) return Value::boolean(false);
      any = true;
    } else {
      in_word = false;
    }
  }
  return Value::boolean(any);
}
Value method_is_ascii(Render& render, const Value& self, const Arguments& arguments) {
  const Bound bound("isascii", arguments, {});
  render.work(self.text().bytes.size());
  return Value::boolean(std::all_of(self.text().bytes.begin(), self.text().bytes.end(),
                                    [](char c) { return static_cast<unsigned char>(c) < 0x80; }));
}
Value method_is_identifier(Render& render, const Value& self, const Arguments& arguments) {
  const Bound bound("isidentifier", arguments, {});
  const std::string& bytes = self.text().bytes;
  render.work(bytes.size());
  for (std::size_t at = 0; at < bytes.size();) {
    const bool first = at == 0;
    const char32_t c = next_char(bytes, at);
    if (first ? !is_identifier_start(c) : !is_identifier_part(c)) return Value::boolean(false);
  }
  return Value::boolean(!bytes.empty());
}
Value method_is_printable(Render& render, const Value& self, const Arguments& arguments) {
  return self.text().bytes.empty() ? Value::boolean(true) : method_all<is_printable>(render, self, arguments);
}

constexpr NamedFunction kQuestions[] = {
    {"isalnum", method_all<is_alnum>},      {"isalpha", method_all<is_alpha>},
    {"isascii", method_is_ascii},           {"isdecimal", method_all<is_decimal>},
    {"isdigit", method_all<is_digit>},      {"isidentifier", method_is_identifier},
    {"islower", method_case<is_all_lower>}, {"isnumeric", method_all<is_numeric>},
    {"isprintable", method_is_printable},   {"isspace", method_all<is_space>},
    {"istitle", method_is_title},           {"isupper", method_case<is_all_upper>},
};

}  // namespace

const NamedFunction* find_string_question(std::string_view name) {
  const auto* found = std::find_if(std::begin(kQuestions), std::end(kQuestions),
                                   [name](const NamedFunction& entry) { return entry.name == name; });
  return found == std::end(kQuestions) ? nullptr : found;
}

}  // namespace pagoda::jinja
