#pragma once
// Turns the JSON found in model files into JSON that parsers accept. Threads: any.
#include <string>
#include <string_view>

namespace pagoda {

// Removes a byte order mark and trailing commas, which editors leave, and turns NaN, Infinity and -Infinity,
// which Python writes, into strings, so that the reader of each field decides about them. Other errors in the
// text are left in place.
std::string strict_json(std::string_view text);

// Turns the strings that strict_json() made back into the numbers that Python reads.
std::string python_json(std::string_view text);

}  // namespace pagoda
