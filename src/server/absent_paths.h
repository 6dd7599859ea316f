#pragma once
// Paths that clients of other servers request and that this server deliberately does not serve. Threads: any.
#include <string_view>

namespace pagoda {

// A sentence that names the replacement for `path`, with or without /v1; empty if the path is unknown.
std::string_view instead_of(std::string_view path);

}  // namespace pagoda
