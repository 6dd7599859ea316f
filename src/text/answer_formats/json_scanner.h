#pragma once
// JsonScanner: finds the end of a JSON object or list while it is still being generated, or the first byte
// that cannot belong to it. Not a parser: numbers and escapes are only roughly checked; the complete value is
// parsed later (parse_json). Invariant: state() and raw() depend only on the bytes, not on how they are
// split. Depth is bounded. Threads: none.
#include <boost/json/value.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pagoda::answer {

inline constexpr std::size_t kMaxJsonDepth = 64;

class JsonScanner {
 public:
  enum class State { more, done, failed };

  // `first_keys`: the allowed first keys of the outermost object, or of the first object in a list; otherwise
  // the scan fails, since text that cannot be a call need not be held back. Empty: any key.
  explicit JsonScanner(std::vector<std::string_view> first_keys = {}) : first_keys_(std::move(first_keys)) {}

  // Returns the number of bytes consumed: up to the end of the value, or up to the offending byte.
  std::size_t take(std::string_view text);
  State state() const { return state_; }
  const std::string& raw() const { return raw_; }  // the text taken so far

 private:
  enum class Expect { value, key_or_end, key, colon, comma_or_end, string, scalar, value_or_end };
  bool step(char c);  // false: `c` is not part of the value
  bool begin_value(char c);
  bool close(char c);

  std::vector<std::string_view> first_keys_;
  bool first_key_seen_ = false;
  std::size_t key_begin_ = 0;
  std::string open_;  // the open brackets
  std::string raw_;
  Expect expect_ = Expect::value;
  bool is_key_ = false;   // the current string is a key
  bool escaped_ = false;  // in the current string, after a backslash
  State state_ = State::more;
};

// Parses a complete JSON value; nullopt if `text` is not one.
std::optional<boost::json::value> parse_json(std::string_view text);

struct JsonMember {
  std::string key;
  std::string_view value;  // raw text
};
// The members of a valid JSON object, or the elements of a list (keys empty), as raw text.
std::vector<JsonMember> json_members(std::string_view object);

// JSON on one line, formatted like Python's json.dumps, with non-ASCII characters unescaped.
std::string dump_json(const boost::json::value& value);

std::string_view trim(std::string_view text);  // ASCII white space

}  // namespace pagoda::answer
