#pragma once
// Parses the query of a URL, "name=value&name=value" after the '?', including its escapes. Threads: any.
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pagoda {

// "%2F" -> "/"; nullopt for a malformed escape or NUL.
std::optional<std::string> percent_decode(std::string_view text);

// "a=1&b=%2F&c" -> (a, 1), (b, /), (c, ), in order; nullopt if any part is malformed.
std::optional<std::vector<std::pair<std::string, std::string>>> parse_query(std::string_view query);

// The value of the first parameter called `name`; nullopt if there is none or the query is malformed.
std::optional<std::string> query_value(std::string_view query, std::string_view name);

}  // namespace pagoda
