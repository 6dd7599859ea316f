#include "api/query.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <system_error>

namespace pagoda {

std::optional<std::string> percent_decode(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i]);
      continue;
    }
    unsigned value = 0;
    if (i + 2 >= text.size()) return std::nullopt;
    const char* begin = text.data() + i + 1;
    const auto [end, error] = std::from_chars(begin, begin + 2, value, 16);
    if (error != std::errc{} || end != begin + 2 || value == 0) return std::nullopt;
    out.push_back(static_cast<char>(value));
    i += 2;
  }
  return out;
}

std::optional<std::vector<std::pair<std::string, std::string>>> parse_query(std::string_view query) {
  std::vector<std::pair<std::string, std::string>> out;
  while (!query.empty()) {
    const std::string_view item = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), item.size() + 1));
    if (item.empty()) continue;
    const std::size_t equals = std::min(item.find('='), item.size());
    std::optional<std::string> name = percent_decode(item.substr(0, equals));
    std::optional<std::string> value = percent_decode(item.substr(std::min(item.size(), equals + 1)));
    if (!name || !value) return std::nullopt;
    out.emplace_back(*std::move(name), *std::move(value));
  }
  return out;
}

std::optional<std::string> query_value(std::string_view query, std::string_view name) {
  auto items = parse_query(query);
  if (!items) return std::nullopt;
  for (auto& [key, value] : *items)
    if (key == name) return std::move(value);
  return std::nullopt;
}

}  // namespace pagoda
