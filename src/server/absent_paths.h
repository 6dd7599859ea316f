#pragma once
// Paths that clients of other servers ask for and that are not served here on purpose. Threads: any.
#include <string_view>

namespace pagoda {

// A sentence on what to use in place of `path`, with or without /v1; empty: nothing is known of it.
std::string_view instead_of(std::string_view path);

}  // namespace pagoda
