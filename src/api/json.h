#pragma once
// JSON of the API: strict parsing within limits, and an append-only writer. Output needs no document model:
// responses and stream chunks are written directly into a string.
// Parsing refuses: depth over kMaxJsonDepth, more than kMaxJsonKeys keys, duplicate keys in an object,
// invalid UTF-8, NaN/Infinity. Error messages are our own and contain no input. The code that reads a body
// from a socket limits its size and accounts for its memory (server/memory_accounts.h).
// Threads: any.
#include <boost/json/value.hpp>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace pagoda {

inline constexpr std::size_t kMaxJsonKeys = 1'000'000;  // keys of all objects in a text
inline constexpr std::size_t kMaxJsonDepth = 128;

Result<boost::json::value> parse_json(std::string_view text);
// Likewise for JSON texts nested in a text: their keys are also deducted from `keys_left`.
Result<boost::json::value> parse_json(std::string_view text, std::size_t& keys_left);
// Parses a request's body; invalid_argument unless it is an object.
Result<boost::json::value> parse_json_body(std::string_view body);

// Replaces each byte that is not part of a character with U+FFFD.
std::string to_valid_utf8(std::string_view bytes);
// Number of code points in valid UTF-8, which OpenAI and Python call the length.
std::int64_t count_characters(std::string_view text);

// Writes one JSON text. The caller pairs begin and end; the writer inserts commas. Strings must be valid
// UTF-8.
class JsonWriter {
 public:
  explicit JsonWriter(std::string& out) : out_(out) {}

  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }
  JsonWriter& key(std::string_view name);
  JsonWriter& string(std::string_view text);
  JsonWriter& integer(std::int64_t number);
  JsonWriter& boolean(bool value);
  JsonWriter& null();
  JsonWriter& float32(float number);   // 9 significant digits: reads back as the same float
  JsonWriter& float64(double number);  // the shortest text that reads back as the same double
  JsonWriter& raw(std::string_view valid_json);
  JsonWriter& integers(std::span<const std::int32_t> numbers);

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  void separate();

  std::string& out_;
  bool need_comma_ = false;
};

}  // namespace pagoda
