#pragma once
// Bytes as hexadecimal digits, two each, the high one first. Threads: any.
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace pagoda {

std::string hex_of(std::span<const std::byte> bytes);  // digits in lower case

// Fills `bytes` from digits in either case. False: `text` is not two digits for each; `bytes` may hold
// anything then.
[[nodiscard]] bool read_hex(std::string_view text, std::span<std::byte> bytes);

}  // namespace pagoda
