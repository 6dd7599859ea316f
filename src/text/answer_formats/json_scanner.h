#pragma once
// JsonScanner: finds where a JSON object or list ends while it is still being written, or the first byte that
// cannot belong to one. Not a parser: numbers and escapes are only roughly checked, the whole value is parsed
// when it is there (parse_json). Invariant: state() and raw() depend on the bytes alone, not on the pieces.
// Depth is bounded. Threads: none.
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

  // `first_keys`: an object's first key, the outermost's, or the first one's of a list, must be one of these,
  // or the scan fails there: what cannot be a call need not be held back. Empty: any key.
  explicit JsonScanner(std::vector<std::string_view> first_keys = {}) : first_keys_(std::move(first_keys)) {}

  // Gives how many bytes were taken: up to the end of the value, or up to the byte that is wrong.
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
  std::string open_;  // the brackets
  std::string raw_;
  Expect expect_ = Expect::value;
  bool is_key_ = false;   // the string under way
  bool escaped_ = false;  // likewise: after a backslash
  State state_ = State::more;
};

// A whole JSON value, or nothing.
std::optional<boost::json::value> parse_json(std::string_view text);

struct JsonMember {
  std::string key;
  std::string_view value;  // as it is written
};
// The members of a valid JSON object, or the elements of a list (keys empty), as they are written.
std::vector<JsonMember> json_members(std::string_view object);

// JSON on one line as Python's json.dumps writes it, non-ASCII as it is.
std::string dump_json(const boost::json::value& value);

std::string_view trim(std::string_view text);  // ASCII white space

}  // namespace pagoda::answer
