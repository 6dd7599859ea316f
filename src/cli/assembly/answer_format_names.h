#pragma once
// --tool-call-parser and --reasoning-parser -> the formats that answers are read in.
#include "api/api_context.h"
#include "base/status.h"
#include "cli/flags/engine_flags.h"

namespace pagoda {

// Sets api.tool_parser and api.reasoning_parser. `chat_template` may be null: then `auto` is none.
// invalid_argument for a name that no format has, or two that do not go together.
Status choose_answer_formats(const EngineFlags& flags, const ChatTemplate* chat_template, ApiContext& api);

}  // namespace pagoda
