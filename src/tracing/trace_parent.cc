#include "tracing/trace_parent.h"

#include <algorithm>

namespace pagoda {
namespace {

bool is_hex(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool is_id(std::string_view text) { return is_hex(text) && text.find_first_not_of('0') != text.npos; }

}  // namespace

std::optional<TraceParent> parse_trace_parent(std::string_view header) {
  constexpr std::size_t kLength = 55;
  if (header.size() < kLength || header[2] != '-' || header[35] != '-' || header[52] != '-')
    return std::nullopt;
  const std::string_view version = header.substr(0, 2), trace = header.substr(3, 32),
                         span = header.substr(36, 16), flags = header.substr(53, 2);
  if (!is_hex(version) || version == "ff" || !is_id(trace) || !is_id(span) || !is_hex(flags))
    return std::nullopt;
  // Later versions may append more fields.
  if (header.size() > kLength && (version == "00" || header[kLength] != '-')) return std::nullopt;
  const char low = flags[1];
  const int digit = low <= '9' ? low - '0' : low - 'a' + 10;
  return TraceParent{std::string(trace), std::string(span), (digit & 1) != 0};
}

}  // namespace pagoda
