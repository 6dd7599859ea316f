#pragma once
// The protocols that this program speaks. A new one is a folder of api/ and a line in protocols.cc. The first
// one's errors are used where no route is known.
#include <string>
#include <string_view>
#include <vector>

#include "api/protocol.h"

namespace pagoda {

std::vector<const Protocol*> all_protocols();

// The row of this method and path, and the text that matched the braces of its path; null: none.
struct FoundRoute {
  const Protocol* protocol = nullptr;
  const ApiRoute* row = nullptr;
  std::string parameter = {};
};
FoundRoute find_api_route(const std::vector<const Protocol*>& protocols, std::string_view method,
                          std::string_view path);

// The protocols with these names; without names: all. invalid_argument: an unknown name.
Result<std::vector<const Protocol*>> protocols_named(const std::vector<std::string>& names);

}  // namespace pagoda
