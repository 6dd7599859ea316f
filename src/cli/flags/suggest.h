#pragma once
// Suggests the known word nearest to a mistyped one.
#include <span>
#include <string>
#include <string_view>

namespace pagoda {

// Returns "; did you mean X?" for a candidate that becomes `word` by few edits (or by omitting a part of the
// name); empty if there is none.
std::string suggestion(std::string_view word, std::span<const std::string> candidates);

}  // namespace pagoda
