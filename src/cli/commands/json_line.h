#pragma once
// What tokenize and render print: a JSON object with one string, on one line, in ASCII.
#include <string>
#include <string_view>

namespace pagoda {

// Bytes of `text` that are no UTF-8 become U+FFFD.
std::string json_line(std::string_view key, std::string_view text);

}  // namespace pagoda
