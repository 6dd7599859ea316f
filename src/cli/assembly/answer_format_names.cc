#include "cli/assembly/answer_format_names.h"

#include "text/answer_formats.h"
#include "text/answer_parser.h"

namespace pagoda {

Status choose_answer_formats(const EngineFlags& flags, const ChatTemplate* chat_template, ApiContext& api) {
  const AnswerFormatNames found =
      chat_template != nullptr ? detect_answer_formats(chat_template->source()) : AnswerFormatNames();
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
