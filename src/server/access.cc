#include "server/access.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>

#include "server/http_request.h"

namespace pagoda {

ApiKeys::ApiKeys(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) digests_.push_back(digest(key));
}

ApiKeys::Digest ApiKeys::digest(std::string_view text) {
  Digest out;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), out.data());
  return out;
}

bool ApiKeys::accepts(std::string_view authorization) const {
  if (!required()) return true;
  constexpr std::string_view kScheme = "bearer ";
  if (authorization.size() < kScheme.size()) return false;
  const bool bearer = std::equal(kScheme.begin(), kScheme.end(), authorization.begin(),
                                 [](char a, char b) { return a == lower(b); });
  if (!bearer) return false;
  const Digest given = digest(authorization.substr(kScheme.size()));
  int matches = 0;
  for (const Digest& known : digests_)
    matches += CRYPTO_memcmp(given.data(), known.data(), given.size()) == 0;
  return matches > 0;
}

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
