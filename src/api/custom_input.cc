#include "api/custom_input.h"

#include <algorithm>
#include <utility>

#include "api/json.h"
#include "base/strings.h"

namespace pagoda {
namespace {

// Length of the opening {"input": " in `text`, white space included, up to the first byte of the input. npos
// if `text` starts differently; kMore if it may still become an opening.
constexpr std::size_t kMore = std::string_view::npos - 1;
std::size_t opening_of(std::string_view text) {
  std::size_t at = 0;
  for (const std::string_view part : {"{", "\"input\"", ":", "\""}) {
    while (at < text.size() && std::string_view(" \t\r\n").find(text[at]) != std::string_view::npos) ++at;
    const std::string_view here = text.substr(at, part.size());
    if (!part.starts_with(here)) return std::string_view::npos;
    if (here.size() < part.size()) return kMore;
    at += part.size();
  }
  return at;
}

// Length in bytes of the escape at the beginning of `text`; 0 if it is incomplete. The first half of a
// surrogate pair is incomplete without the second.
std::size_t escape_length(std::string_view text) {
  if (text.size() < 2) return 0;
  if (text[1] != 'u') return 2;
  if (text.size() < 6) return 0;
  const bool high =
      (text[2] | 0x20) == 'd' && std::string_view("89abAB").find(text[3]) != std::string_view::npos;
  const std::string_view other = text.substr(6, 2);
  if (!high || !std::string_view("\\u").starts_with(other)) return 6;
  return text.size() < 12 ? 0 : 12;
}

std::string unescaped(std::string_view escape) {
  const Result<boost::json::value> value = parse_json(concat("[\"", escape, "\"]"));
  return std::string(value ? std::string_view(value->as_array().front().as_string()) : escape);
}

}  // namespace

std::string CustomInput::push(std::string_view arguments) {
  if (state_ == State::other) return std::string(arguments);
  held_.append(arguments);
  std::string_view rest = held_;
  if (state_ == State::before) {
    const std::size_t opening = opening_of(held_);
    if (opening == kMore) return {};
    if (opening == std::string_view::npos) {
      state_ = State::other;
      return std::exchange(held_, {});
    }
    state_ = State::inside;
    rest.remove_prefix(opening);
  }
  std::string out;
  while (state_ == State::inside && !rest.empty()) {
    const std::size_t plain = std::min(rest.find_first_of("\"\\"), rest.size());
    out.append(rest.substr(0, plain));
    rest.remove_prefix(plain);
    if (rest.empty()) break;
    if (rest.front() == '"') {
      state_ = State::behind;
      break;
    }
    const std::size_t length = escape_length(rest);
    if (length == 0) break;
    out.append(unescaped(rest.substr(0, length)));
    rest.remove_prefix(length);
  }
  held_ = state_ == State::inside ? std::string(rest) : std::string();
  return out;
}

std::string CustomInput::finish() {
  const bool undecided = state_ == State::before;
  state_ = State::other;
  std::string held = std::exchange(held_, {});
  return undecided ? held : std::string();  // an incomplete escape is dropped
}

}  // namespace pagoda
