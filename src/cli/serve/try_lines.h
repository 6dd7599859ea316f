#pragma once
// The lines that `serve` prints once it listens: its address, a command that a newcomer can paste into
// another terminal, and the page's address. The command works on this server as it was started: with its
// keys, its TLS, its protocols and its kind of model. A key is never printed. Text only.
#include <string>
#include <string_view>

#include "api/api_context.h"
#include "cli/flags/engine_flags.h"

namespace pagoda {

std::string try_lines(std::string_view url, const ServerFlags& flags, const ApiContext& api);

}  // namespace pagoda
