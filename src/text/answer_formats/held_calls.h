#pragma once
// HeldCalls: parses calls that a grammar constrains to a CallShape with JSON arguments, and reports arguments
// while they are generated. Text that does not begin like the shape is content. Not for unconstrained calls,
// which might turn out not to be calls. Threads: none.
#include <memory>

#include "text/answer_formats/tool_format.h"
#include "text/call_shape.h"

namespace pagoda::answer {

std::unique_ptr<AnswerStage> make_held_calls_stage(const CallShape& shape, const ToolContext& context);

}  // namespace pagoda::answer
