#pragma once
// Length bounds combined with a pattern: a pattern whose strings have between `least` and `most` characters
// and all match the given pattern. If not all such strings can be expressed, the result matches fewer. Not a
// matcher; patterns that it cannot parse (look-around, back references, inner anchors) are left to be
// refused.
// Threads: any.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pagoda {

// `pattern` matches whole strings of characters that need no escape in JSON. nullopt if no string can match,
// or the pattern cannot be parsed.
std::optional<std::string> pattern_of_lengths(std::string_view pattern, std::int64_t least,
                                              std::int64_t most);

}  // namespace pagoda
