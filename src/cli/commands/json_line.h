#pragma once
// The output of tokenize, render and parse: JSON on one line, in ASCII.
#include <string>
#include <string_view>

namespace pagoda {

// Escapes the non-ASCII characters of `json`. Requires valid UTF-8 in which they occur only inside strings.
std::string ascii_json(std::string_view json);

// Returns `text` as a JSON string in UTF-8; invalid UTF-8 becomes U+FFFD.
std::string json_string(std::string_view text);

// Returns an object with a single string member.
std::string json_line(std::string_view key, std::string_view text);

}  // namespace pagoda
