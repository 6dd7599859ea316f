#pragma once
// Url: an http or https address in its parts, and resolution of redirects.
// Not a general parser: no user names, no fragments; unsupported forms are refused.
// Errors: nullopt. Threads: any. Source: RFC 3986, as far as the hub and its mirrors need it.
#include <optional>
#include <string>
#include <string_view>

namespace pagoda {

struct Url {
  bool tls = false;
  std::string host;    // without brackets for an IPv6 address
  std::string port;    // digits; the scheme's default if none is given
  std::string target;  // path and query, begins with '/'

  // "https://host:port" without the default port: identifies the servers that may receive a token.
  std::string origin() const;
  // For the Host header.
  std::string authority() const;
};

// "http://…" or "https://…", without control characters and spaces.
std::optional<Url> parse_url(std::string_view text);

// Resolves a Location header against `base`: an absolute address, or a path on the same host.
std::optional<Url> follow(const Url& base, std::string_view location);

// `path` with all characters except letters, digits, "-._~" and '/' as %XX.
std::string percent_encoded(std::string_view path);

}  // namespace pagoda
