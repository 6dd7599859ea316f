#pragma once
// The program's version, as reported by `pagoda --version` and GET /version.
#include <string_view>

namespace pagoda {

std::string_view version();  // "0.1.0"; stated once, in the top CMakeLists.txt

}  // namespace pagoda
