#pragma once
// printable(): a name taken from an untrusted file, fit for a one-line message: control characters
// and bytes that are not UTF-8 escaped as \xNN, and long names cut.
#include <cstddef>
#include <string>
#include <string_view>

namespace pagoda {

std::string printable(std::string_view text, std::size_t max_bytes = 200);

// `text` with every byte that is not part of well-formed UTF-8 replaced by U+FFFD: for JSON output.
std::string valid_utf8(std::string_view text);

}  // namespace pagoda
