#include "text/answer_formats/json_scanner.h"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <charconv>
#include <cmath>

#include "base/ascii.h"

namespace pagoda::answer {
namespace {

bool is_scalar(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-' || c == '+' || c == '.' || c == 'E';
}

}  // namespace

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

std::size_t JsonScanner::take(std::string_view text) {
  std::size_t taken = 0;
  while (taken < text.size() && state_ == State::more) {
    if (!step(text[taken])) {
      state_ = State::failed;
      break;
    }
    raw_ += text[taken++];
  }
  return taken;
}

bool JsonScanner::begin_value(char c) {
  if (c == '{' || c == '[') {
    if (open_.size() == kMaxJsonDepth) return false;
    open_ += c;
    expect_ = c == '{' ? Expect::key_or_end : Expect::value_or_end;
    return true;
  }
  if (open_.empty()) return false;  // only objects and lists are scanned
  if (c == '"') {
    is_key_ = false;
    expect_ = Expect::string;
    return true;
  }
  expect_ = Expect::scalar;
  return is_scalar(c);
}

bool JsonScanner::close(char c) {
  if (open_.back() != (c == '}' ? '{' : '[')) return false;
  open_.pop_back();
  expect_ = Expect::comma_or_end;
  if (open_.empty()) state_ = State::done;
  return true;
}

bool JsonScanner::step(char c) {
  if (expect_ == Expect::string) {
    if (escaped_) {
      escaped_ = false;
    } else if (c == '\\') {
      escaped_ = true;
    } else if (c == '"') {
      if (is_key_ && !first_key_seen_) {
        first_key_seen_ = true;
        const std::string_view key = std::string_view(raw_).substr(key_begin_);
        if (!first_keys_.empty() && std::ranges::find(first_keys_, key) == first_keys_.end()) return false;
      }
      expect_ = is_key_ ? Expect::colon : Expect::comma_or_end;
    }
    return static_cast<unsigned char>(c) >= 0x20;
  }
  if (expect_ == Expect::scalar) {
    if (is_scalar(c)) return true;
    expect_ = Expect::comma_or_end;
  }
  if (is_blank(c)) return true;
  switch (expect_) {
    case Expect::value:
      return begin_value(c);
    case Expect::value_or_end:
      return c == ']' ? close(c) : begin_value(c);
    case Expect::key_or_end:
      if (c == '}') return close(c);
      [[fallthrough]];
    case Expect::key:
      if (c != '"') return false;
      is_key_ = true;
      key_begin_ = raw_.size() + 1;
      expect_ = Expect::string;
      return true;
    case Expect::colon:
      expect_ = Expect::value;
      return c == ':';
    default:
      if (c == '}' || c == ']') return close(c);
      expect_ = open_.back() == '{' ? Expect::key : Expect::value;
      return c == ',';
  }
}

std::optional<boost::json::value> parse_json(std::string_view text) {
  boost::json::error_code error;
  boost::json::parse_options options;
  options.max_depth = kMaxJsonDepth + 1;
  boost::json::value value = boost::json::parse(text, error, {}, options);
  if (error) return std::nullopt;
  return value;
}

std::vector<JsonMember> json_members(std::string_view object) {
  std::vector<JsonMember> members;
  std::size_t depth = 0;
  std::size_t begin = 0;
  bool in_string = false;
  std::string_view key;
  const auto add = [&](std::size_t end) {
    const std::string_view value = trim(object.substr(begin, end - begin));
    if (value.empty()) return;  // {} and []
    std::string name;
    if (const auto parsed = parse_json(trim(key)); parsed && parsed->is_string())
      name.assign(parsed->get_string().data(), parsed->get_string().size());
    members.push_back({std::move(name), value});
    key = {};
  };
  for (std::size_t i = 0; i < object.size(); ++i) {
    const char c = object[i];
    if (in_string) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        in_string = false;
      continue;
    }
    if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth == 1) begin = i + 1;
    } else if (c == '}' || c == ']') {
      if (depth-- == 1) add(i);
    } else if (depth == 1 && c == ':') {
      key = object.substr(begin, i - begin);
      begin = i + 1;
    } else if (depth == 1 && c == ',') {
      add(i);
      begin = i + 1;
    }
  }
  return members;
}

namespace {

void dump(const boost::json::value& value, std::string& out) {
  if (value.is_object()) {
    out += '{';
    for (bool first = true; const auto& [key, member] : value.get_object()) {
      if (!first) out += ", ";
      first = false;
      out += boost::json::serialize(boost::json::string(key));
      out += ": ";
      dump(member, out);
    }
    out += '}';
  } else if (value.is_array()) {
    out += '[';
    for (bool first = true; const boost::json::value& element : value.get_array()) {
      if (!first) out += ", ";
      first = false;
      dump(element, out);
    }
    out += ']';
  } else if (value.is_double() && std::isfinite(value.get_double())) {
    char buffer[32];  // boost writes 3.14 as 3.14E0
    const auto end = std::to_chars(buffer, buffer + sizeof buffer, value.get_double()).ptr;
    const std::string_view digits(buffer, static_cast<std::size_t>(end - buffer));
    out += digits;
    if (digits.find_first_of(".e") == std::string_view::npos) out += ".0";
  } else {
    out += boost::json::serialize(value);
  }
}

}  // namespace

std::string dump_json(const boost::json::value& value) {
  std::string out;
  dump(value, out);
  return out;
}

}  // namespace pagoda::answer
