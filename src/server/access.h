#pragma once
// Which names and browser origins are served (keys: keys/). Default deny wherever something is configured.
// Threads: any; immutable once made.
#include <string>
#include <string_view>
#include <vector>

namespace pagoda {

// On a loopback bind only names that no stranger owns are served: localhost, containers' names for their
// host, and addresses as numbers. A web page that rebinds its DNS name to 127.0.0.1 sends its own name as
// Host.
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
