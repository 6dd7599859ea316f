#pragma once
// What stands behind a path's '?': "name=value&name=value". Threads: any.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

namespace pagoda {

// The value of the first parameter of this name, as sent; nothing where there is none. Not decoded: what is
// asked for here has no characters that need it.
inline std::optional<std::string> query_value(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const std::string_view part = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(part.size() + 1, query.size()));
    const std::size_t equals = std::min(part.find('='), part.size());
    if (part.substr(0, equals) == name) return std::string(part.substr(std::min(equals + 1, part.size())));
  }
  return std::nullopt;
}

}  // namespace pagoda
