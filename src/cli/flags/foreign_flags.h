#pragma once
// Flags of llama-server, and what they are called here: a hint for who types them.
#include <string>
#include <string_view>

namespace pagoda {

// "unknown flag -c; llama-server's -c is --max-model-len here"; empty: none of its flags.
std::string foreign_flag(std::string_view flag);

// "-np" -> "--np": short names of several letters, which the parser would read as several flags.
std::string with_two_dashes(const std::string& argument);

}  // namespace pagoda
