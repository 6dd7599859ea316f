#pragma once
// JSON as files of models really have it, turned into JSON as parsers take it. Threads: any.
#include <string>
#include <string_view>

namespace pagoda {

// Without a byte order mark and commas before a closing bracket, as editors leave them; NaN, Infinity and
// -Infinity, which Python writes for such numbers, become strings, so that the field's reader decides about
// them. Text that is wrong in another way stays wrong.
std::string strict_json(std::string_view text);

// The numbers that strict_json() put into strings as Python reads them.
std::string python_json(std::string_view text);

}  // namespace pagoda
