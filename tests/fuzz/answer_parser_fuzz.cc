// Any bytes as a model's answer, in any format and cut anywhere: no fault, and the same message.
// links: text
// The first three bytes choose the formats and where the text is cut; the rest is the text.
#include <algorithm>
#include <boost/json/parse.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "text/answer_formats.h"
#include "text/answer_parser.h"

namespace {

std::string parse(const pagoda::AnswerParserOptions& options, std::string_view text, std::size_t step) {
  auto parser = pagoda::AnswerParser::create(options);
  if (!parser) return {};
  std::vector<pagoda::AnswerEvent> events;
  for (; !text.empty(); text.remove_prefix(std::min(step, text.size())))
    parser->push({.text = text.substr(0, step), .token = {}}, events);
  parser->finish(events);
  std::string content, reasoning, calls;
  for (const pagoda::AnswerEvent& event : events) {
    switch (event.kind) {
      case pagoda::AnswerEvent::Kind::content:
        content += event.text;
        break;
      case pagoda::AnswerEvent::Kind::reasoning:
        reasoning += event.text;
        break;
      default:
        calls += event.text + event.call_id + "\n";
    }
  }
  return content + "\1" + reasoning + "\2" + calls;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3) return 0;
  static const auto kTools = pagoda::tool_parser_names();
  static const auto kReasoning = pagoda::reasoning_parser_names();
  static const boost::json::value kSchema = boost::json::parse(
      R"({"properties":{"a":{"type":"integer"},"b":{"anyOf":[{"$ref":"#/$defs/x"},{"type":"null"}]},)"
      R"("c":{"type":"array","items":{"type":"object","properties":{"a":{"type":"number"}}}}},)"
      R"("$defs":{"x":{"anyOf":[{"$ref":"#/$defs/x"},{"type":"boolean"}]}},"required":["a"]})");
  pagoda::AnswerParserOptions options;
  if (data[0] % 8 != 0) options.tool_parser = kTools[data[0] % kTools.size()];
  if (data[1] % 4 != 0) options.reasoning_parser = kReasoning[data[1] % kReasoning.size()];
  options.tools = std::make_shared<const std::vector<pagoda::DeclaredTool>>(
      std::vector<pagoda::DeclaredTool>{{"f", kSchema.get_object()}});
  if (data[2] % 3 != 0) options.starts_in_reasoning = data[2] % 3 == 1;
  const std::string_view text(reinterpret_cast<const char*>(data + 3), size - 3);
  CHECK(parse(options, text, text.size() + 1) == parse(options, text, 1 + data[2] / 3 % 16));
  return 0;
}
