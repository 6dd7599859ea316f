// Goal: calls that a grammar holds are told while they are written, and the same wherever the text is cut.
// Method: texts of each shape as the grammar would let them be, fed whole and in pieces of every length.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/strings.h"
#include "text/answer_formats.h"
#include "text/answer_parser.h"
#include "text/call_shape.h"

namespace pagoda {
namespace {

struct HeldMessage {
  std::string content, reasoning;
  std::vector<std::pair<std::string, std::string>> calls;
  std::size_t pieces_of_arguments = 0;
  bool operator==(const HeldMessage& other) const {
    return content == other.content && reasoning == other.reasoning && calls == other.calls;
  }
};

HeldMessage read(const CallShape& shape, std::string_view text, std::size_t piece,
                 std::string reasoning = "") {
  AnswerParserOptions options;
  options.tool_parser = std::string(shape.tool_parser);
  options.reasoning_parser = std::move(reasoning);
  options.held_shape = &shape;
  Result<AnswerParser> parser = AnswerParser::create(std::move(options));
  EXPECT_TRUE(parser.has_value());
  std::vector<AnswerEvent> events;
  for (std::size_t at = 0; at < text.size(); at += piece)
    (*parser).push({.text = text.substr(at, piece), .token = {}}, events);
  (*parser).finish(events);
  HeldMessage out;
  for (const AnswerEvent& event : events) {
    switch (event.kind) {
      case AnswerEvent::Kind::content:
        out.content += event.text;
        break;
      case AnswerEvent::Kind::reasoning:
        out.reasoning += event.text;
        break;
      case AnswerEvent::Kind::call_begun:
        out.calls.emplace_back(event.text, "");
        break;
      case AnswerEvent::Kind::call_arguments:
        EXPECT_EQ(static_cast<std::size_t>(event.call) + 1, out.calls.size());
        out.calls.back().second += event.text;
        ++out.pieces_of_arguments;
        break;
      case AnswerEvent::Kind::call_ended:
        break;
    }
  }
  return out;
}

std::string written(const CallShape& shape, const std::vector<std::pair<std::string, std::string>>& calls) {
  std::string out(shape.section_begin);
  for (std::size_t i = 0; i < calls.size(); ++i)
    out += concat(i > 0 ? shape.separator : "", shape.begin, calls[i].first, shape.middle, calls[i].second,
                  shape.end);
  return out + std::string(shape.section_end);
}

TEST(HeldCalls, EveryShapeIsReadByItsFormatAndWhileItIsWritten) {
  const std::string tricky = R"({"city": "Pa}]ris </tool_call>\n\"x\\", "n": [1, {"a": null}]})";
  for (const CallShape& shape : call_shapes()) {
    if (shape.style != "json") continue;
    SCOPED_TRACE(std::string(shape.tool_parser) + shape.begin.data());
    std::vector<std::pair<std::string, std::string>> calls = {{"get_weather", tricky}};
    if (shape.repeats) calls.emplace_back("f", "{}");
    const std::string text = written(shape, calls);
    const HeldMessage whole = read(shape, text, text.size());
    EXPECT_EQ(whole.calls, calls);
    EXPECT_EQ(whole.content, "");
    for (std::size_t piece = 1; piece < 40; ++piece) EXPECT_EQ(read(shape, text, piece), whole) << piece;
    if (shape.tool_parser != "inkling") EXPECT_GT(read(shape, text, 1).pieces_of_arguments, 20u);
    // The format's own reader, which does not know that it is held, finds the same calls.
    AnswerParserOptions options;
    options.tool_parser = std::string(shape.tool_parser);
    Result<AnswerParser> parser = AnswerParser::create(std::move(options));
    std::vector<AnswerEvent> events;
    (*parser).push({.text = text, .token = {}}, events);
    (*parser).finish(events);
    std::vector<std::string> names;
    for (const AnswerEvent& event : events)
      if (event.kind == AnswerEvent::Kind::call_begun) names.push_back(event.text);
    EXPECT_EQ(names.size(), calls.size()) << text;
  }
}

TEST(HeldCalls, TextAroundAndWhatIsCutOff) {
  const CallShape& hermes = hermes_call_shape();
  const std::string call = written(hermes, {{"f", R"({"a": 1})"}});
  const std::string text = "Sure. " + call + "\nDone.";
  for (std::size_t piece = 1; piece < 30; ++piece) {
    const HeldMessage message = read(hermes, text, piece);
    EXPECT_EQ(message.content, "Sure. Done.");
    EXPECT_EQ(message.calls.size(), 1u);
    const HeldMessage cut = read(hermes, std::string_view(call).substr(0, call.size() - 20), piece);
    ASSERT_EQ(cut.calls.size(), 1u);
    EXPECT_TRUE(std::string_view(R"({"a": 1})").starts_with(cut.calls[0].second));
    const HeldMessage thought = read(hermes, "<think>Hm.</think>\n\n" + call, piece, "qwen3");
    EXPECT_EQ(thought.reasoning, "Hm.");
    EXPECT_EQ(thought.calls.size(), 1u);
  }
}

TEST(HeldCalls, AForcedCallThatIsCutIsACallOrNothing) {
  for (const CallShape& shape : call_shapes()) {
    SCOPED_TRACE(shape.tool_parser);
    const std::string text = written(shape, {{"f", R"({"a": 1})"}});
    for (std::size_t size = 1; size < text.size(); ++size) {
      AnswerParserOptions options;
      options.tool_parser = std::string(shape.tool_parser);
      options.calls_forced = true;
      if (shape.style == "json") options.held_shape = &shape;
      Result<AnswerParser> parser = AnswerParser::create(std::move(options));
      ASSERT_TRUE(parser);
      std::vector<AnswerEvent> events;
      parser->push({.text = std::string_view(text).substr(0, size), .token = {}}, events);
      parser->finish(events);
      for (const AnswerEvent& event : events)
        EXPECT_NE(event.kind, AnswerEvent::Kind::content) << event.text << " of " << text.substr(0, size);
    }
  }
}

TEST(AnswerFormats, TemplatesOfNemotronAndApriel) {
  const AnswerFormatNames nemotron =
      detect_answer_formats("{{ '<TOOLCALL>[' }}{{ call.arguments }}{{ ']</TOOLCALL>' }}");
  EXPECT_EQ(nemotron.tool_parser, "nemotron_json");
  const AnswerFormatNames apriel = detect_answer_formats(
      "'Here are my reasoning steps:\\n' '[BEGIN FINAL RESPONSE]' '<tool_calls>[' ']</tool_calls>'");
  EXPECT_EQ(apriel.tool_parser, "apriel");
  EXPECT_EQ(apriel.reasoning_parser, "apriel");
  const std::string text =
      "I add.\n[BEGIN FINAL RESPONSE]\n<tool_calls>[{\"name\": \"add\", \"arguments\": {\"a\": 1}}]"
      "</tool_calls>\n[END FINAL RESPONSE]";
  AnswerParserOptions options;
  options.tool_parser = options.reasoning_parser = "apriel";
  options.starts_in_reasoning =
      prompt_opens_reasoning("apriel", "<|assistant|>\nHere are my reasoning steps:\n");
  EXPECT_EQ(options.starts_in_reasoning, true);
  Result<AnswerParser> parser = AnswerParser::create(options);
  std::vector<AnswerEvent> events;
  (*parser).push({.text = text, .token = {}}, events);
  (*parser).finish(events);
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0].text, "I add.");
  EXPECT_EQ(events[1].text, "add");
  EXPECT_EQ(events[2].text, "{\"a\": 1}");
}

}  // namespace
}  // namespace pagoda
