#pragma once
// OpenAI's `tool_choice`, in chat and Responses: a keyword, a tool by name, or {"type": "allowed_tools"} with
// the tools that may be called. Threads: none.
#include "api/declared_tools.h"
#include "api/field_reader.h"
#include "api/held_answer.h"

namespace pagoda {

// `tools`: all declared tools, after settle(); tools that are not allowed are removed. Errors are reported
// through `fields`. hold_answer() refuses undeclared names.
ToolChoice read_tool_choice(FieldReader& fields, DeclaredTools& tools);

}  // namespace pagoda
