#pragma once
// The protocols that this program speaks. A new protocol is a folder of api/ and a line in protocols.cc.
// Errors for unknown routes have the form of the first protocol.
#include <string>
#include <string_view>
#include <vector>

#include "api/protocol.h"

namespace pagoda {

std::vector<const Protocol*> all_protocols();

// The route with this method and path, and the text that matched the braces of its path. `row` is null if
// there is none.
struct FoundRoute {
  const Protocol* protocol = nullptr;
  const ApiRoute* row = nullptr;
  std::string parameter = {};
};
FoundRoute find_api_route(const std::vector<const Protocol*>& protocols, std::string_view method,
                          std::string_view path);

// The protocols with these names; all if `names` is empty. invalid_argument: an unknown name.
Result<std::vector<const Protocol*>> protocols_named(const std::vector<std::string>& names);

}  // namespace pagoda
