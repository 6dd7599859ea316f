#include "server/access.h"

#include <algorithm>

#include "server/http_request.h"

namespace pagoda {

HostCheck::HostCheck(std::string bind_host, bool loopback, std::vector<std::string> allowed)
    : active_(loopback), names_(std::move(allowed)) {
  if (std::find(names_.begin(), names_.end(), "*") != names_.end()) active_ = false;
  for (const char* name : {"localhost", "127.0.0.1", "[::1]"}) names_.emplace_back(name);
  names_.push_back(std::move(bind_host));
  for (std::string& name : names_) name = lowered(name);
}

bool HostCheck::accepts(std::string_view host) const {
  if (!active_) return true;
  if (host.empty()) return true;  // HTTP/1.0 without one: no browser
  const std::size_t bracket = host.rfind(']');
  const std::size_t colon = host.find(':', bracket == std::string_view::npos ? 0 : bracket);
  const std::string_view port = colon == std::string_view::npos ? "" : host.substr(colon + 1);
  if (!std::all_of(port.begin(), port.end(), [](char c) { return c >= '0' && c <= '9'; })) return false;
  host = host.substr(0, colon);
  return std::find(names_.begin(), names_.end(), lowered(host)) != names_.end();
}

std::string allowed_origin(std::string_view origin, const std::vector<std::string>& allowed) {
  if (origin.empty()) return {};
  for (const std::string& entry : allowed)
    if (entry == "*" || entry == origin) return entry;
  return {};
}

}  // namespace pagoda
