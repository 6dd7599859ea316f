#pragma once
// The protocols that this program speaks. A new one is a folder of api/ and a line in protocols.cc. The first
// one's errors are used where no route is known.
#include <string>
#include <vector>

#include "api/protocol.h"

namespace pagoda {

std::vector<const Protocol*> all_protocols();
// Those of these names; none: all. invalid_argument: there is no such one.
Result<std::vector<const Protocol*>> protocols_named(const std::vector<std::string>& names);

}  // namespace pagoda
