#pragma once
// The table of all answer formats, used by answer_formats.h and to build the parser's pipeline.
#include <string_view>
#include <vector>

#include "text/answer_formats/tool_format.h"

namespace pagoda::answer {

const std::vector<ToolFormat>& tool_formats();
const std::vector<MessageFormat>& message_formats();

const ToolFormat* find_tool_format(std::string_view name);
const MessageFormat* find_message_format_of_tools(std::string_view tool_parser);
const MessageFormat* find_message_format_of_reasoning(std::string_view reasoning_parser);

}  // namespace pagoda::answer
