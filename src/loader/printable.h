#pragma once
// printable(): makes a name from an untrusted file fit for a one-line message: control characters and invalid
// UTF-8 are escaped as \xNN, and long names are cut.
#include <cstddef>
#include <string>
#include <string_view>

namespace pagoda {

std::string printable(std::string_view text, std::size_t max_bytes = 200);

// Returns `text` with every byte that is not part of well-formed UTF-8 replaced by U+FFFD; for JSON output.
std::string valid_utf8(std::string_view text);

}  // namespace pagoda
