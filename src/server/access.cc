#include "server/access.h"

#include <arpa/inet.h>

#include <algorithm>

#include "base/ascii.h"
#include "server/http_request.h"

namespace pagoda {
namespace {

// True for an IPv4 address, or an IPv6 address in brackets. No DNS name has this form, so DNS rebinding
// cannot use it.
bool is_address(std::string_view host) {
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  const std::string text(bracketed ? host.substr(1, host.size() - 2) : host);
  unsigned char address[sizeof(in6_addr)];
  return inet_pton(bracketed ? AF_INET6 : AF_INET, text.c_str(), address) == 1;
}

}  // namespace

HostCheck::HostCheck(std::string bind_host, bool loopback, std::vector<std::string> allowed)
    : active_(loopback), names_(std::move(allowed)) {
  if (std::find(names_.begin(), names_.end(), "*") != names_.end()) active_ = false;
  for (const char* name : {"localhost", "host.docker.internal", "host.containers.internal"})
    names_.emplace_back(name);
  names_.push_back(std::move(bind_host));
  for (std::string& name : names_) name = lowered(name);
}

bool HostCheck::accepts(std::string_view host) const {
  if (!active_) return true;
  if (host.empty()) return true;  // HTTP/1.0 without Host: not a browser
  const std::size_t bracket = host.rfind(']');
  const std::size_t colon = host.find(':', bracket == std::string_view::npos ? 0 : bracket);
  const std::string_view port = colon == std::string_view::npos ? "" : host.substr(colon + 1);
  if (!std::all_of(port.begin(), port.end(), [](char c) { return c >= '0' && c <= '9'; })) return false;
  host = host.substr(0, colon);
  if (is_address(host)) return true;
  return std::find(names_.begin(), names_.end(), lowered(host)) != names_.end();
}

std::string allowed_origin(std::string_view origin, const std::vector<std::string>& allowed) {
  if (origin.empty()) return {};
  for (const std::string& entry : allowed)
    if (entry == "*" || entry == origin) return entry;
  return {};
}

}  // namespace pagoda
