#pragma once
// What `serve` prints once it listens: where it is, a command that a newcomer can paste into another
// terminal, and where the page is. The command works on this server as it was started: with its keys, its
// TLS, its protocols and what its model makes. A key is never printed. Text only.
#include <string>
#include <string_view>

#include "api/api_context.h"
#include "cli/flags/engine_flags.h"

namespace pagoda {

std::string try_lines(std::string_view url, const ServerFlags& flags, const ApiContext& api);

}  // namespace pagoda
