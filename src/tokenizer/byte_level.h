#pragma once
// The byte-level alphabet of GPT-2: every byte is written as one visible character, so that vocabularies
// are text. Source: GPT-2's encoder.py, bytes_to_unicode.
#include <array>
#include <string>
#include <string_view>

namespace pagoda {

// For each byte, the UTF-8 encoding (one or two bytes) of its character.
const std::array<std::string, 256>& byte_level_alphabet();

void append_byte_level(std::string& out, std::string_view bytes);

// The inverse. False, leaving `out` unchanged, if `text` has a character outside the alphabet.
bool append_from_byte_level(std::string& out, std::string_view text);

}  // namespace pagoda
