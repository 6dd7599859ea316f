#pragma once
// Who may ask: API keys, Host names, browser origins. Default deny wherever something is configured.
// Threads: any; immutable once made.
#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace pagoda {

// Keys are kept as SHA-256 only. A check takes the same time whichever key matches, or none.
class ApiKeys {
 public:
  explicit ApiKeys(const std::vector<std::string>& keys);
  bool required() const { return !digests_.empty(); }
  // `authorization` is the header's value: "Bearer KEY".
  bool accepts(std::string_view authorization) const;

 private:
  using Digest = std::array<unsigned char, 32>;
  static Digest digest(std::string_view text);
  std::vector<Digest> digests_;
};

// On a loopback bind only loopback names are served: a web page that rebinds its DNS name to 127.0.0.1
// sends its own name as Host.
class HostCheck {
 public:
  HostCheck(std::string bind_host, bool loopback, std::vector<std::string> allowed);
  bool accepts(std::string_view host_header) const;

 private:
  bool active_;
  std::vector<std::string> names_;
};

// The value for Access-Control-Allow-Origin, or empty: closed unless the origin, or "*", is listed.
std::string allowed_origin(std::string_view origin, const std::vector<std::string>& allowed);

}  // namespace pagoda
