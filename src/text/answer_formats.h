#pragma once
// The names of the answer formats, as in vLLM's --tool-call-parser and --reasoning-parser, and detection of
// the formats that a chat template uses. The formats themselves are in answer_formats/. Threads: any.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pagoda {

std::vector<std::string_view> tool_parser_names();       // in the order of the table
std::vector<std::string_view> reasoning_parser_names();  // in the order of the table

// True if this format parses whole messages, reasoning included (harmony), and so cannot be combined with
// another format.
bool reads_whole_messages(std::string_view tool_parser);

struct AnswerFormatNames {
  std::string tool_parser;       // empty: none
  std::string reasoning_parser;  // empty: none
};
// The formats chosen by `auto`: detected by the markers that occur in the template's source.
AnswerFormatNames detect_answer_formats(std::string_view template_source);

// True if the rendered `prompt` leaves the reasoning open, as templates do that end in "<think>\n". nullopt
// if the prompt cannot tell for this format.
std::optional<bool> prompt_opens_reasoning(std::string_view reasoning_parser, std::string_view prompt);

}  // namespace pagoda
