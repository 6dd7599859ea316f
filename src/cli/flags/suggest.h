#pragma once
// "Did you mean": the known word nearest to a mistyped one.
#include <span>
#include <string>
#include <string_view>

namespace pagoda {

// "; did you mean X?" for the candidate that few edits (or a missing part of a name) turn into `word`; empty
// when none is near.
std::string suggestion(std::string_view word, std::span<const std::string> candidates);

}  // namespace pagoda
