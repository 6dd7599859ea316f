#pragma once
// The lines that `serve` prints once it listens: its address, an example command to paste into another
// terminal, and the page's address. The command works with the server's keys, TLS, protocols and kind of
// model. Keys are never printed. Text only.
#include <string>
#include <string_view>

#include "api/api_context.h"
#include "cli/flags/engine_flags.h"

namespace pagoda {

std::string try_lines(std::string_view url, const ServerFlags& flags, const ApiContext& api);

}  // namespace pagoda
