#pragma once
// The flags of chat and run. `args` must outlive the rows.
#include <vector>

#include "cli/chat/chat_command.h"
#include "cli/flags/flag.h"

namespace pagoda {

std::vector<Flag> chat_flags(ChatArgs& args);
std::vector<Flag> run_flags(ChatArgs& args);

}  // namespace pagoda
