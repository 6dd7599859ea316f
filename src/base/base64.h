#pragma once
// Source: RFC 4648 §4. Threads: any.
#include <optional>
#include <string>
#include <string_view>

namespace pagoda {

// Standard base64, padding optional; nullopt for other characters.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace pagoda
