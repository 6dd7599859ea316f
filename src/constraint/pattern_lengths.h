#pragma once
// Lengths beside a pattern: a pattern whose texts have at least and at most so many characters, each of them
// a text of the given pattern. Where the given one says more than can be kept, fewer texts are left. Not a
// matcher; what it does not read (look-around, back references, anchors within) it leaves to be refused.
// Threads: any.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pagoda {

// `pattern` matches whole texts, of characters that stand for themselves in JSON. Nothing: no text is left,
// or the pattern is not read.
std::optional<std::string> pattern_of_lengths(std::string_view pattern, std::int64_t least,
                                              std::int64_t most);

}  // namespace pagoda
