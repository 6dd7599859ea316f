#pragma once
// Output of tokenize, render and parse: JSON on one line, in ASCII.
#include <string>
#include <string_view>

namespace pagoda {

// `json` in ASCII: what is outside it is escaped. For valid UTF-8 in which it stands inside strings.
std::string ascii_json(std::string_view json);

// `text` as a JSON string, in UTF-8; bytes that are no UTF-8 become U+FFFD.
std::string json_string(std::string_view text);

// An object with one string.
std::string json_line(std::string_view key, std::string_view text);

}  // namespace pagoda
