#include "api/json.h"

#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/value_stack.hpp>
#include <charconv>
#include <cmath>

#include "base/strings.h"
#include "base/utf8.h"

namespace pagoda {
namespace {

namespace json = boost::json;
using ErrorCode = boost::system::error_code;

// Builds a value from the events of Boost's parser, as Boost's own handler does, and counts the keys.
struct Handler {
  static constexpr std::size_t max_object_size = kMaxJsonKeys;
  static constexpr std::size_t max_array_size = std::size_t{1} << 24;
  static constexpr std::size_t max_key_size = std::size_t{1} << 16;
  static constexpr std::size_t max_string_size = std::size_t{1} << 28;

  json::value_stack stack;
  std::size_t keys_left = 0;
  bool too_many_keys = false;

  bool on_document_begin(ErrorCode&) {
    stack.reset();
    return true;
  }
  bool on_document_end(ErrorCode&) { return true; }
  bool on_object_begin(ErrorCode&) { return true; }
  bool on_object_end(std::size_t count, ErrorCode&) {
    stack.push_object(count);
    return true;
  }
  bool on_array_begin(ErrorCode&) { return true; }
  bool on_array_end(std::size_t count, ErrorCode&) {
    stack.push_array(count);
    return true;
  }
  bool on_key_part(json::string_view part, std::size_t, ErrorCode&) {
    stack.push_chars(part);
    return true;
  }
  bool on_key(json::string_view part, std::size_t, ErrorCode& error) {
    if (keys_left == 0) {
      too_many_keys = true;
      error = make_error_code(json::error::exception);
      return false;
    }
    --keys_left;
    stack.push_key(part);
    return true;
  }
  bool on_string_part(json::string_view part, std::size_t, ErrorCode&) {
    stack.push_chars(part);
    return true;
  }
  bool on_string(json::string_view part, std::size_t, ErrorCode&) {
    stack.push_string(part);
    return true;
  }
  bool on_number_part(json::string_view, ErrorCode&) { return true; }
  bool on_int64(std::int64_t number, json::string_view, ErrorCode&) {
    stack.push_int64(number);
    return true;
  }
  bool on_uint64(std::uint64_t number, json::string_view, ErrorCode&) {
    stack.push_uint64(number);
    return true;
  }
  bool on_double(double number, json::string_view, ErrorCode&) {
    stack.push_double(number);
    return true;
  }
  bool on_bool(bool value, ErrorCode&) {
    stack.push_bool(value);
    return true;
  }
  bool on_null(ErrorCode&) {
    stack.push_null();
    return true;
  }
  bool on_comment_part(json::string_view, ErrorCode&) { return true; }
  bool on_comment(json::string_view, ErrorCode&) { return true; }
};

std::size_t count_keys(const json::value& value) {
  std::size_t count = 0;
  if (const json::array* list = value.if_array())
    for (const json::value& entry : *list) count += count_keys(entry);
  if (const json::object* object = value.if_object()) {
    count += object->size();
    for (const auto& entry : *object) count += count_keys(entry.value());
  }
  return count;
}

Status malformed(std::string_view what) {
  return invalid_argument(concat("The request body is not valid JSON: ", what, "."))
      .with_reason("invalid_json");
}

}  // namespace

Result<json::value> parse_json(std::string_view text) {
  std::size_t keys_left = kMaxJsonKeys;
  return parse_json(text, keys_left);
}

Result<json::value> parse_json(std::string_view text, std::size_t& keys_left) {
  json::parse_options options;
  options.max_depth = kMaxJsonDepth;
  json::basic_parser<Handler> parser(options);
  const std::size_t keys_here = std::min(keys_left, kMaxJsonKeys);
  parser.handler().keys_left = keys_here;
  ErrorCode error;
  const std::size_t used = parser.write_some(false, text.data(), text.size(), error);
  const std::size_t num_keys = keys_here - parser.handler().keys_left;
  keys_left -= num_keys;
  if (error) {
    if (parser.handler().too_many_keys) return malformed(concat("it has more than ", keys_here, " keys"));
    if (error == json::error::too_deep)
      return malformed(concat("it is nested deeper than ", kMaxJsonDepth, " levels"));
    if (!is_valid_utf8(text)) return malformed("it is not UTF-8");
    if (error == json::error::incomplete) return malformed("it is incomplete");
    return malformed(concat("syntax error near byte ", used));
  }
  if (text.find_first_not_of(" \t\r\n", used) != std::string_view::npos)
    return malformed(concat("unexpected data after its end, at byte ", used));
  json::value value = parser.handler().stack.release();
  // Boost keeps the last of equal keys. Duplicates are refused, since readers of a body could disagree on
  // which one counts.
  if (count_keys(value) != num_keys) return malformed("an object has a duplicate key");
  return value;
}

std::string to_valid_utf8(std::string_view bytes) {
  if (is_valid_utf8(bytes)) return std::string(bytes);
  std::string out;
  Utf8LossyStream stream;
  stream.push(bytes, out);
  stream.finish(out);
  return out;
}

std::int64_t count_characters(std::string_view text) {
  std::int64_t count = 0;
  for (const char c : text) count += !is_utf8_continuation(c);
  return count;
}

void JsonWriter::separate() {
  if (need_comma_) out_.push_back(',');
  need_comma_ = true;
}

JsonWriter& JsonWriter::open(char bracket) {
  separate();
  out_.push_back(bracket);
  need_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
  out_.push_back(bracket);
  need_comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  string(name);
  out_.push_back(':');
  need_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::string(std::string_view text) {
  separate();
  out_.push_back('"');
  std::size_t plain_from = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte >= 0x20 && byte != '"' && byte != '\\') continue;
    out_.append(text, plain_from, i - plain_from);
    plain_from = i + 1;
    switch (byte) {
      case '"':
        out_.append("\\\"");
        break;
      case '\\':
        out_.append("\\\\");
        break;
      case '\n':
        out_.append("\\n");
        break;
      case '\r':
        out_.append("\\r");
        break;
      case '\t':
        out_.append("\\t");
        break;
      default: {
        constexpr char kHex[] = "0123456789abcdef";
        out_.append("\\u00");
        out_.push_back(kHex[byte >> 4]);
        out_.push_back(kHex[byte & 15]);
      }
    }
  }
  out_.append(text, plain_from, text.size() - plain_from);
  out_.push_back('"');
  return *this;
}

JsonWriter& JsonWriter::integer(std::int64_t number) {
  separate();
  char buffer[24];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, number).ptr;
  out_.append(buffer, end);
  return *this;
}

JsonWriter& JsonWriter::boolean(bool value) {
  separate();
  out_.append(value ? "true" : "false");
  return *this;
}

JsonWriter& JsonWriter::null() {
  separate();
  out_.append("null");
  return *this;
}

JsonWriter& JsonWriter::float32(float number) {
  CHECK(std::isfinite(number));
  separate();
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, static_cast<double>(number),
                                 std::chars_format::general, 9)
                       .ptr;
  out_.append(buffer, end);
  return *this;
}

JsonWriter& JsonWriter::float64(double number) {
  CHECK(std::isfinite(number));
  separate();
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, number).ptr;
  out_.append(buffer, end);
  return *this;
}

JsonWriter& JsonWriter::raw(std::string_view valid_json) {
  separate();
  out_.append(valid_json);
  return *this;
}

JsonWriter& JsonWriter::integers(std::span<const std::int32_t> numbers) {
  begin_array();
  for (const std::int32_t number : numbers) integer(number);
  return end_array();
}

Result<boost::json::value> parse_json_body(std::string_view body) {
  Result<boost::json::value> value = parse_json(without_byte_order_mark(body));
  if (value && !value->is_object()) return invalid_argument("The request body must be a JSON object.");
  return value;
}

}  // namespace pagoda
