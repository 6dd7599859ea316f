#pragma once
// Decides which Host names and browser origins are served (API keys: keys/). Denies by default once a list is
// configured. Threads: any; immutable once made.
#include <string>
#include <string_view>
#include <vector>

namespace pagoda {

// On a loopback address, accepts only names that no stranger can own: localhost, the names that containers
// use for their host, and numeric addresses. Prevents DNS rebinding: a web page that rebinds its DNS name to
// 127.0.0.1 sends its own name as Host.
class HostCheck {
 public:
  HostCheck(std::string bind_host, bool loopback, std::vector<std::string> allowed);
  bool accepts(std::string_view host_header) const;

 private:
  bool active_;
  std::vector<std::string> names_;
};

// The value for Access-Control-Allow-Origin, or empty unless `allowed` lists the origin or "*".
std::string allowed_origin(std::string_view origin, const std::vector<std::string>& allowed);

}  // namespace pagoda
