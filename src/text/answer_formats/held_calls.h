#pragma once
// HeldCalls: reads calls that a grammar holds to a CallShape with JSON arguments, and tells arguments while
// they are written. What does not begin as the shape does is content. Not for calls that nothing holds: those
// might turn out to be none. Threads: none.
#include <memory>

#include "text/answer_formats/tool_format.h"
#include "text/call_shape.h"

namespace pagoda::answer {

std::unique_ptr<AnswerStage> make_held_calls_stage(const CallShape& shape, const ToolContext& context);

}  // namespace pagoda::answer
