#include "cli/assembly/answer_format_names.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "cli/flags/suggest.h"
#include "text/answer_formats.h"
#include "text/answer_parser.h"

namespace pagoda {
namespace {

Status check_name(const char* flag, const std::string& given, std::vector<std::string_view> known) {
  if (given.empty() || given == "auto" || given == "none" || std::ranges::count(known, given) > 0)
    return ok_status();
  const std::string near = suggestion(given, std::vector<std::string>(known.begin(), known.end()));
  return invalid_argument(
      concat(flag, ": there is no parser '", given, "'", near.empty() ? "; docs/tools.md lists them" : near));
}

}  // namespace

Status check_answer_format_names(const EngineFlags& flags) {
  PAGODA_RETURN_IF_ERROR(check_name("--tool-call-parser", flags.tool_call_parser, tool_parser_names()));
  return check_name("--reasoning-parser", flags.reasoning_parser, reasoning_parser_names());
}

Status choose_answer_formats(const EngineFlags& flags, const ChatTemplates& chat_templates, ApiContext& api) {
  const auto detect = [](const std::unique_ptr<ChatTemplate>& one) {
    return one != nullptr ? detect_answer_formats(one->source()) : AnswerFormatNames();
  };
  AnswerFormatNames found = detect(chat_templates.usual);
  // The template for tools determines how tool calls are written.
  if (const AnswerFormatNames of_tools = detect(chat_templates.tool_use); !of_tools.tool_parser.empty())
    found.tool_parser = of_tools.tool_parser;
  const ChatTemplate* shows_tools =
      chat_templates.tool_use != nullptr ? chat_templates.tool_use.get() : chat_templates.usual.get();
  if (found.tool_parser.empty() && shows_tools != nullptr && !shows_tools->traits().tool_calls)
    found.tool_parser = "hermes";
  const auto choose = [](const std::string& given, const std::string& automatic) {
    return given == "auto" ? automatic : given == "none" ? std::string() : given;
  };
  api.tool_parser = choose(flags.tool_call_parser, found.tool_parser);
  api.reasoning_parser = choose(flags.reasoning_parser, found.reasoning_parser);
  AnswerParserOptions options;
  options.tool_parser = api.tool_parser;
  options.reasoning_parser = api.reasoning_parser;
  const Result<AnswerParser> parser = AnswerParser::create(std::move(options));
  return parser ? ok_status() : parser.error();
}

}  // namespace pagoda
