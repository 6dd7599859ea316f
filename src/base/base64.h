#pragma once
// Source: RFC 4648 §4. Threads: any.
#include <optional>
#include <string>
#include <string_view>

namespace pagoda {

// Decodes standard base64; padding is optional. nullopt if `text` contains any other character.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace pagoda
