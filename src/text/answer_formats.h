#pragma once
// Which answer formats there are, by vLLM's names of --tool-call-parser and --reasoning-parser, and which of
// them a chat template asks for. Not the formats themselves (answer_formats/). Threads: any.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pagoda {

std::vector<std::string_view> tool_parser_names();       // in the order of the table
std::vector<std::string_view> reasoning_parser_names();  // likewise

// Whether this format reads whole messages, reasoning and all (harmony), and goes with no other.
bool reads_whole_messages(std::string_view tool_parser);

struct AnswerFormatNames {
  std::string tool_parser;       // empty: none
  std::string reasoning_parser;  // empty: none
};
// The formats that `auto` chooses: found by the markers that the template's source writes itself.
AnswerFormatNames detect_answer_formats(std::string_view template_source);

// Whether the rendered `prompt` leaves the reasoning open, as templates do that end in "<think>\n". Absent
// for a format that cannot be told from the prompt.
std::optional<bool> prompt_opens_reasoning(std::string_view reasoning_parser, std::string_view prompt);

}  // namespace pagoda
