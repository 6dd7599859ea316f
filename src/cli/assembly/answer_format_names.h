#pragma once
// --tool-call-parser and --reasoning-parser -> the formats that answers are read in.
#include "api/api_context.h"
#include "base/status.h"
#include "cli/assembly/load_chat_template.h"
#include "cli/flags/engine_flags.h"

namespace pagoda {

// Whether the two flags name parsers that there are: known before a model is loaded.
Status check_answer_format_names(const EngineFlags& flags);

// Sets api.tool_parser and api.reasoning_parser. Without a template `auto` is none; with one that knows no
// calls it is hermes', in whose form text/normalise.h tells the model to write them. invalid_argument for a
// name that no format has, or two that do not go together.
Status choose_answer_formats(const EngineFlags& flags, const ChatTemplates& chat_templates, ApiContext& api);

}  // namespace pagoda
