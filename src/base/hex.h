#pragma once
// Bytes as hexadecimal: two digits per byte, high digit first. Threads: any.
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace pagoda {

std::string hex_of(std::span<const std::byte> bytes);  // lowercase digits

// Decodes `text`, in either case, into `bytes`. False if `text` is not exactly two digits per byte; `bytes`
// is then unspecified.
[[nodiscard]] bool read_hex(std::string_view text, std::span<std::byte> bytes);

}  // namespace pagoda
