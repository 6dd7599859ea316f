#pragma once
// Chooses the formats in which answers are parsed, from --tool-call-parser and --reasoning-parser.
#include "api/api_context.h"
#include "base/status.h"
#include "cli/assembly/load_chat_template.h"
#include "cli/flags/engine_flags.h"

namespace pagoda {

// Checks that the two flags name existing parsers. Needs no model.
Status check_answer_format_names(const EngineFlags& flags);

// Sets api.tool_parser and api.reasoning_parser. `auto` selects no tool parser without a template, and
// `hermes` for a template without tool calls, because text/normalise.h tells the model to use that form.
// invalid_argument for an unknown name, or two that conflict.
Status choose_answer_formats(const EngineFlags& flags, const ChatTemplates& chat_templates, ApiContext& api);

}  // namespace pagoda
