#pragma once
// `tool_choice` in OpenAI's words, of chat and of Responses: a word, a tool by name, or {"type":
// "allowed_tools"} with the tools that may be called. Threads: none.
#include "api/declared_tools.h"
#include "api/field_reader.h"
#include "api/held_answer.h"

namespace pagoda {

// `tools`: all that were declared, settled; those that are not allowed are taken out. Errors are left in
// `fields`. A name that is not declared is left for hold_answer() to refuse.
ToolChoice read_tool_choice(FieldReader& fields, DeclaredTools& tools);

}  // namespace pagoda
