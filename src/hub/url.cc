#include "hub/url.h"

#include <algorithm>
#include <utility>

#include "base/ascii.h"
#include "base/strings.h"

namespace pagoda {
namespace {

constexpr std::size_t kMaxLength = 8192;

bool is_digits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::string Url::authority() const {
  const std::string name = host.find(':') == host.npos ? host : concat("[", host, "]");
  return port == (tls ? "443" : "80") ? name : concat(name, ":", port);
}

std::string Url::origin() const { return concat(tls ? "https://" : "http://", authority()); }

std::optional<Url> parse_url(std::string_view text) {
  if (text.size() > kMaxLength) return std::nullopt;
  for (const char c : text)
    if (static_cast<unsigned char>(c) <= 0x20 || c == 0x7f) return std::nullopt;
  Url url;
  const std::size_t scheme_end = text.find("://");
  if (scheme_end == text.npos) return std::nullopt;
  std::string scheme(text.substr(0, scheme_end));
  std::ranges::transform(scheme, scheme.begin(), lower);
  if (scheme != "http" && scheme != "https") return std::nullopt;
  url.tls = scheme == "https";
  text.remove_prefix(scheme_end + 3);
  text = text.substr(0, text.find('#'));
  const std::size_t host_end = text.find_first_of("/?");
  std::string_view authority = text.substr(0, host_end);
  url.target = host_end == text.npos ? "/" : text.substr(host_end);
  if (url.target.front() == '?') url.target.insert(0, 1, '/');
  if (authority.find('@') != authority.npos) return std::nullopt;
  std::string_view host = authority, port;
  if (authority.starts_with('[')) {
    const std::size_t end = authority.find(']');
    if (end == authority.npos) return std::nullopt;
    host = authority.substr(1, end - 1);
    port = authority.substr(end + 1);
  } else if (const std::size_t colon = authority.find(':'); colon != authority.npos) {
    host = authority.substr(0, colon);
    port = authority.substr(colon);
  }
  if (host.empty()) return std::nullopt;
  if (!port.empty()) {
    port.remove_prefix(1);
    if (!is_digits(port) || port.size() > 5) return std::nullopt;
  }
  url.host = host;
  std::ranges::transform(url.host, url.host.begin(), lower);
  url.port = port.empty() ? (url.tls ? "443" : "80") : std::string(port);
  return url;
}

std::optional<Url> follow(const Url& base, std::string_view location) {
  if (location.starts_with("//")) return parse_url(concat(base.tls ? "https:" : "http:", location));
  if (location.starts_with('/')) return parse_url(concat(base.origin(), location));
  return parse_url(location);
}

std::string percent_encoded(std::string_view path) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("-._~/").find(c) != std::string_view::npos;
    if (plain) {
      out += c;
    } else {
      out += '%';
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  return out;
}

}  // namespace pagoda
