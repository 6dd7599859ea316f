#pragma once
// Parses human-readable sizes: "4GiB", "512M", "1.5G", "25.6k", "4096". As in vLLM, a lower-case suffix is
// decimal (8k = 8,000) and an upper-case one binary (8K = 8,192); KB, MB … are decimal, KiB, MiB … binary.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pagoda {

// nullopt: not a size, negative, or more than 2^62. Fractions of a byte are rounded down.
std::optional<std::int64_t> parse_size(std::string_view text);

}  // namespace pagoda
