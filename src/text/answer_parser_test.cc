#include "text/answer_parser.h"

#include <gtest/gtest.h>

#include <array>
#include <boost/json/parse.hpp>
#include <random>

#include "text/answer_formats.h"

namespace pagoda {
namespace {

struct Call {
  std::string name, arguments;
  bool operator==(const Call&) const = default;
};
struct ParsedMessage {
  std::string content, reasoning;
  std::vector<Call> calls;
  bool operator==(const ParsedMessage&) const = default;
};
std::ostream& operator<<(std::ostream& out, const ParsedMessage& message) {
  out << "content '" << message.content << "' reasoning '" << message.reasoning << "'";
  for (const Call& call : message.calls) out << " " << call.name << "(" << call.arguments << ")";
  return out;
}

// Checks the events' order by the way: a call is begun once, then its arguments, then its end.
void gather(const std::vector<AnswerEvent>& events, ParsedMessage& message) {
  static_assert(static_cast<int>(AnswerEvent::Kind::call_ended) == 4);
  std::int32_t open = -1;
  for (const AnswerEvent& event : events) {
    switch (event.kind) {
      case AnswerEvent::Kind::reasoning:
        message.reasoning += event.text;
        EXPECT_EQ(event.call, -1);
        break;
      case AnswerEvent::Kind::content:
        message.content += event.text;
        EXPECT_EQ(event.call, -1);
        break;
      case AnswerEvent::Kind::call_begun:
        EXPECT_EQ(open, -1);
        open = event.call;
        EXPECT_EQ(static_cast<std::size_t>(event.call), message.calls.size());
        message.calls.push_back({event.text, {}});
        break;
      case AnswerEvent::Kind::call_arguments:
        EXPECT_EQ(open, event.call);
        message.calls.back().arguments += event.text;
        break;
      case AnswerEvent::Kind::call_ended:
        EXPECT_EQ(open, event.call);
        open = -1;
        break;
    }
  }
  EXPECT_EQ(open, -1);
}

// In pieces of `first` bytes, then of `step`.
ParsedMessage parse_answer(const AnswerParserOptions& options, std::string_view text,
                           std::size_t first = std::string::npos, std::size_t step = std::string::npos) {
  Result<AnswerParser> parser = AnswerParser::create(options);
  EXPECT_TRUE(parser) << (parser ? "" : parser.error().message());
  std::vector<AnswerEvent> events;
  for (std::size_t length = first; !text.empty(); length = step) {
    parser->push({.text = text.substr(0, length), .token = {}}, events);
    text.remove_prefix(std::min(length, text.size()));
  }
  parser->finish(events);
  ParsedMessage message;
  gather(events, message);
  return message;
}

void expect_same_for_every_cut(const AnswerParserOptions& options, std::string_view text) {
  const ParsedMessage whole = parse_answer(options, text);
  for (std::size_t step = 1; step <= 4; ++step)
    ASSERT_EQ(parse_answer(options, text, step, step), whole)
        << options.tool_parser << "/" << options.reasoning_parser << " in pieces of " << step << ": " << text;
  for (std::size_t cut = 1; cut < text.size(); ++cut)
    ASSERT_EQ(parse_answer(options, text, cut), whole)
        << options.tool_parser << "/" << options.reasoning_parser << " cut at " << cut << ": " << text;
}

// {"light": {room: string, level: integer, on: boolean, when: object}, "stop": {}}
std::shared_ptr<const std::vector<DeclaredTool>> tools() {
  const auto schema = boost::json::parse(R"({"type": "object", "properties": {
      "room": {"type": "string"}, "level": {"type": "integer"}, "on": {"type": "boolean"},
      "when": {"type": "object", "properties": {"hour": {"type": "integer"}}},
      "names": {"type": "array", "items": {"type": "string"}},
      "scene": {"anyOf": [{"type": "string"}, {"type": "null"}]}}})");
  return std::make_shared<const std::vector<DeclaredTool>>(
      std::vector<DeclaredTool>{{"light", schema.get_object()}, {"stop", {}}});
}

struct Case {
  const char* tool;
  const char* reasoning;
  const char* text;
  ParsedMessage expected;
  std::optional<bool> starts = std::nullopt;
};

const Case kCases[] = {
    // JSON between markers
    {"hermes",
     "",
     "Well.\n<tool_call>\n{\"name\": \"light\", \"arguments\": {\"room\": \"</tool_call>\"}}\n</tool_call>\n"
     "<tool_call>{\"name\": \"stop\", \"arguments\": {}}</tool_call>",
     {"Well.", "", {{"light", "{\"room\": \"</tool_call>\"}"}, {"stop", "{}"}}}},
    {"hermes",
     "",
     "a <tool_call>{\"name\": \"light\", \"arguments\": {\"room\"",
     {"a <tool_call>{\"name\": \"light\", \"arguments\": {\"room\"", "", {}}},
    {"hermes",
     "",
     "<tool_call>{\"name\": \"light\", \"arguments\": {]}</tool_call> and so on",
     {"<tool_call>{\"name\": \"light\", \"arguments\": {]}</tool_call> and so on", "", {}}},
    {"hermes", "", " a <tool_cal b < c ", {" a <tool_cal b < c ", "", {}}},
    {"hermes",
     "qwen3",
     "hm <tool_call>{\"name\": \"stop\", \"arguments\": {}}</tool_call>",
     {"", "hm", {{"stop", "{}"}}},
     true},
    {"longcat",
     "",
     "<longcat_tool_call>{\"name\": \"stop\", \"arguments\": {}}</longcat_tool_call>",
     {"", "", {{"stop", "{}"}}}},
    {"llama3_json",
     "",
     "{\"name\": \"stop\", \"parameters\": {}}; {\"name\": \"light\", \"parameters\": {\"level\": 2}}",
     {"", "", {{"stop", "{}"}, {"light", "{\"level\": 2}"}}}},
    {"llama3_json",
     "",
     "int main() { return {}; } {\"a\": 1}",
     {"int main() { return {}; } {\"a\": 1}", "", {}}},
    {"llama3_json",
     "",
     "<|python_tag|>{\"type\": \"function\", \"name\": \"stop\", \"parameters\": {}}",
     {"", "", {{"stop", "{}"}}}},
    {"granite", "", "<|tool_call|>[{\"name\": \"stop\", \"arguments\": {}}]", {"", "", {{"stop", "{}"}}}},
    {"granite", "", "See [1] and [{\"name\": 1}]", {"See [1] and [{\"name\": 1}]", "", {}}},
    {"granite-20b-fc",
     "",
     "<function_call> {\"name\": \"stop\", \"arguments\": {}}",
     {"", "", {{"stop", "{}"}}}},
    {"granite4",
     "",
     "<tool_call>{\"name\": \"stop\", \"arguments\": {}}</tool_call> Done.",
     {" Done.", "", {{"stop", "{}"}}}},
    {"phi4_mini_json",
     "",
     "functools[{\"name\": \"light\", \"arguments\": {\"names\": [\"a\", \"]\"]}}]",
     {"", "", {{"light", "{\"names\": [\"a\", \"]\"]}"}}}},
    {"internlm",
     "",
     "Ok<|action_start|><|plugin|>{\"name\": \"stop\", \"parameters\": {}}<|action_end|>",
     {"Ok", "", {{"stop", "{}"}}}},
    {"jamba",
     "",
     "<tool_calls>[{\"name\": \"stop\", \"arguments\": {}}]</tool_calls>",
     {"", "", {{"stop", "{}"}}}},
    {"nemotron_json",
     "",
     "<TOOLCALL>[{\"name\": \"stop\", \"arguments\": {}}]</TOOLCALL>",
     {"", "", {{"stop", "{}"}}}},
    {"apriel",
     "",
     "<tool_calls>[{\"name\": \"stop\", \"arguments\": {}}]</tool_calls>",
     {"", "", {{"stop", "{}"}}}},
    {"xlam",
     "",
     "Sure ```json\n[{\"name\": \"stop\", \"arguments\": {}}]\n```",
     {"Sure", "", {{"stop", "{}"}}}},
    {"apertus",
     "",
     "<|tools_prefix|>[{\"stop\": {}}, {\"light\": {\"level\": 1}}]<|tools_suffix|>",
     {"", "", {{"stop", "{}"}, {"light", "{\"level\": 1}"}}}},
    {"cohere_command3",
     "cohere_command3",
     "<|START_THINKING|>Hm <co>x</co: 1:[0]><|END_THINKING|><|START_RESPONSE|>So a < "
     "<co>b</co>.<|END_RESPONSE|>",
     {"So a < b.", "Hm x", {}}},
    {"cohere_command3",
     "",
     "<|START_ACTION|>[{\"tool_call_id\": \"0\", \"tool_name\": \"stop\", \"parameters\": {}}]<|END_ACTION|>",
     {"", "", {{"stop", "{}"}}}},
    {"gigachat3",
     "",
     "Ok<|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\": \"stop\", \"arguments\": {}}</s>",
     {"Ok", "", {{"stop", "{}"}}}},
    // headers
    {"deepseek_v3",
     "",
     "Hi<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>light\n```json\n{\"level\": 1}\n```"
     "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     {"Hi", "", {{"light", "{\"level\": 1}"}}}},
    {"deepseek_v31",
     "deepseek_v3",
     "so</think><｜tool▁calls▁begin｜><｜tool▁call▁begin｜>stop<｜tool▁sep｜>{}<｜tool▁call▁end｜>"
     "<｜tool▁call▁begin｜>light<｜tool▁sep｜>{\"on\": true}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     {"", "so", {{"stop", "{}"}, {"light", "{\"on\": true}"}}},
     true},
    {"deepseek_v31", "deepseek_v3", "a</think>b", {"a</think>b", "", {}}, false},
    {"kimi_k2",
     "kimi_k2",
     "<think>so<|tool_calls_section_begin|><|tool_call_begin|>functions.light:0<|tool_call_argument_begin|>"
     "{\"room\": \"a\"}<|tool_call_end|><|tool_calls_section_end|>",
     {"", "so", {{"light", "{\"room\": \"a\"}"}}}},
    {"kimi_k2",
     "",
     "<|tool_calls_section_begin|><|tool_call_begin|>light",
     {"<|tool_calls_section_begin|><|tool_call_begin|>light", "", {}}},
    // markup around each argument
    {"qwen3_coder",
     "qwen3",
     "hm\n</think>\n\nOk\n<tool_call>\n<function=light>\n<parameter=room>\n a\nb "
     "\n</parameter>\n<parameter=level>\n3\n"
     "</parameter>\n<parameter=on>\ntrue\n</parameter>\n<parameter=when>\n{\"hour\": "
     "\"7\"}\n</parameter>\n</function>\n"
     "</tool_call>",
     {"Ok",
      "hm",
      {{"light", "{\"room\": \" a\\nb \", \"level\": 3, \"on\": true, \"when\": {\"hour\": 7}}"}}},
     true},
    {"qwen3_coder",
     "",
     "<tool_call>\n<function=light>\n<parameter=scene>null</parameter>\n<parameter=room>ha",
     {"", "", {{"light", "{\"scene\": null}"}}}},
    {"qwen3_coder",
     "",
     "<tool_call>\n{\"name\": \"stop\", \"arguments\": {}}\n</tool_call>",
     {"", "", {{"stop", "{}"}}}},
    {"qwen3_coder", "", "a<tool_call>what</tool_call>b", {"a<tool_call>what</tool_call>b", "", {}}},
    {"step3p5",
     "",
     "a<tool_call>\n<function=stop>\n</function>\n</tool_call>b",
     {"ab", "", {{"stop", "{}"}}}},
    {"seed_oss",
     "seed_oss",
     "x</seed:think><seed:tool_call><function=stop></function></seed:tool_call>",
     {"", "x", {{"stop", "{}"}}},
     true},
    {"glm45",
     "glm45",
     "<think>h</think>Ok<tool_call>light\n<arg_key>level</arg_key>\n<arg_value>5</arg_value>\n</tool_call>",
     {"Ok", "h", {{"light", "{\"level\": 5}"}}}},
    {"glm47", "", "<tool_call>stop</tool_call><tool_call>unknown</tool_call>", {"", "", {{"stop", "{}"}}}},
    {"hy_v3",
     "",
     "<tool_calls><tool_call>light<tool_sep><arg_key>names</arg_key><arg_value>['a']</arg_value></tool_call>"
     "</tool_calls>",
     {"", "", {{"light", "{\"names\": [\"a\"]}"}}}},
    {"minimax_m2",
     "minimax_m2",
     "h</think><minimax:tool_call><invoke name=\"light\"><parameter name='room'>a\n</parameter></invoke>"
     "<invoke name=stop></invoke></minimax:tool_call>",
     {"", "h", {{"light", "{\"room\": \"a\\n\"}"}, {"stop", "{}"}}},
     true},
    {"minimax_m3",
     "",
     "]<]minimax[>[<tool_call>]<]minimax[>[<invoke "
     "name=\"light\">]<]minimax[>[<when>]<]minimax[>[<hour>7]<]minimax[>[</hour>"
     "]<]minimax[>[</when>]<]minimax[>[<names>]<]minimax[>[<item>a]<]minimax[>[</item>]<]minimax[>[</names>"
     "]<]minimax[>[</invoke>]<]minimax[>[</tool_call>",
     {"", "", {{"light", "{\"when\": {\"hour\": 7}, \"names\": [\"a\"]}"}}}},
    {"dots",
     "",
     "<dots_function_call><invoke name=light><parameter "
     "name=level>3</parameter></invoke></dots_function_call>",
     {"", "", {{"light", "{\"level\": 3}"}}}},
    {"deepseek_v32",
     "",
     "<｜DSML｜function_calls><｜DSML｜invoke name=\"light\"><｜DSML｜parameter name=\"room\" "
     "string=\"true\">1"
     "</｜DSML｜parameter><｜DSML｜parameter name=\"level\" "
     "string=\"false\">1</｜DSML｜parameter></｜DSML｜invoke>"
     "</｜DSML｜function_calls>",
     {"", "", {{"light", "{\"room\": \"1\", \"level\": 1}"}}}},
    {"deepseek_v4",
     "deepseek_v4",
     "x</think><｜DSML｜tool_calls><｜DSML｜invoke name=\"stop\"/><｜DSML｜invoke "
     "name=\"light\"><｜DSML｜parameter "
     "name=\"arguments\" string=\"false\">{\"level\": \"2\"}</｜DSML｜parameter></｜DSML｜tool_calls>",
     {"", "x", {{"stop", "{}"}, {"light", "{\"level\": 2}"}}},
     true},
    {"step3",
     "",
     "<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke "
     "name=\"light\"><steptml:parameter "
     "name=\"level\">1</steptml:parameter></steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>",
     {"", "", {{"light", "{\"level\": 1}"}}}},
    {"minicpm5",
     "",
     "<function name=\"light\"><param name=\"room\">a &amp; b</param></function>",
     {"", "", {{"light", "{\"room\": \"a & b\"}"}}}},
    {"kimi_k3",
     "kimi_k3",
     "h<|close|>think<|sep|><|open|>response<|sep|>Hi<|close|>response<|sep|><|open|>tools<|sep|><|open|>"
     "call "
     "tool=\"light\" index=\"1\"<|sep|><|open|>argument key=\"room\" "
     "type=\"string\"<|sep|>1<|close|>argument<|sep|>"
     "<|close|>call<|sep|><|close|>tools<|sep|>",
     {"Hi", "h", {{"light", "{\"room\": \"1\"}"}}},
     true},
    {"gemma4",
     "gemma4",
     "<|channel>thought\nhm<channel|>Ok<|tool_call>call:light{room:<|\"|>a,b}<|\"|>,level:3,when:{hour:7},"
     "names:[<|\"|>x"
     "<|\"|>]}<tool_call|>",
     {"Ok",
      "hm",
      {{"light", "{\"room\": \"a,b}\", \"level\": 3, \"when\": {\"hour\": 7}, \"names\": [\"x\"]}"}}}},
    {"functiongemma",
     "",
     "<start_function_call>call:light{room:<escape>a<escape>}<end_function_call>",
     {"", "", {{"light", "{\"room\": \"a\"}"}}}},
    // Python
    {"pythonic",
     "",
     "[light(room='it\\'s', level=-1, on=True, when={'hour': 7}), stop()]",
     {"",
      "",
      {{"light", "{\"room\": \"it's\", \"level\": -1, \"on\": true, \"when\": {\"hour\": 7}}"},
       {"stop", "{}"}}}},
    {"pythonic", "", "[light(level=1)] is a call", {"[light(level=1)] is a call", "", {}}},
    {"pythonic", "", "[1] says so", {"[1] says so", "", {}}},
    {"llama4_pythonic", "", "<|python_start|>[stop()]<|python_end|>", {"", "", {{"stop", "{}"}}}},
    {"olmo3",
     "",
     "<function_calls>stop()\nlight(level=1)</function_calls>",
     {"", "", {{"stop", "{}"}, {"light", "{\"level\": 1}"}}}},
    {"lfm2", "", "<|tool_call_start|>[stop()]<|tool_call_end|>Done.", {"Done.", "", {{"stop", "{}"}}}},
    {"lfm2",
     "",
     "<|tool_call_start|>[mcp-home.get-2nd(level=1)]<|tool_call_end|>",
     {"", "", {{"mcp-home.get-2nd", "{\"level\": 1}"}}}},
    {"pythonic", "", "[get-all(), re-set(a=2)]", {"", "", {{"get-all", "{}"}, {"re-set", "{\"a\": 2}"}}}},
    // messages
    {"mistral",
     "mistral",
     "[THINK]h[/THINK]Ok[TOOL_CALLS]light[CALL_ID]abc[ARGS]{\"level\": 1}[TOOL_CALLS]stop{}",
     {"Ok", "h", {{"light", "{\"level\": 1}"}, {"stop", "{}"}}}},
    {"mistral",
     "",
     "[TOOL_CALLS] [{\"name\": \"stop\", \"arguments\": {}}, {\"name\": \"light\", \"arguments\": "
     "{\"level\": 1}}]",
     {"", "", {{"stop", "{}"}, {"light", "{\"level\": 1}"}}}},
    {"openai",
     "openai_gptoss",
     "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary<|message|>Wait.<|end|><|"
     "start|>assistant"
     "<|channel|>commentary to=functions.light <|constrain|>json<|message|>{\"level\": 1}<|call|>",
     {"Wait.", "hm", {{"light", "{\"level\": 1}"}}}},
    {"openai", "openai_gptoss", "<|channel|>final<|message|>Yes<|return|>", {"Yes", "", {}}},
    {"openai",  // without its <|message|>
     "openai_gptoss",
     "<|channel|>analysis<|message|>Hm<|end|><|start|>assistant<|channel|>final {\"a\": 1}<|return|>",
     {"<|start|>assistant<|channel|>final {\"a\": 1}<|return|>", "Hm", {}}},
    {"muse_glimmer",
     "muse_glimmer",
     " to=self<|message|>hm<|eom|><|start|>assistant to=light<|message|><atem:function_calls><atem:invoke "
     "name=\"light\">"
     "<atem:parameter name=\"level\">1</atem:parameter></atem:invoke></atem:function_calls>",
     {"", "hm", {{"light", "{\"level\": 1}"}}}},
    {"inkling",
     "inkling",
     "<|content_thinking|>hm<|end_message|><|message_model|><|content_invoke_tool_json|>{\"name\": \"stop\", "
     "\"args\": {}}"
     "<|end_message|>",
     {"", "hm", {{"stop", "{}"}}}},
    // reasoning alone
    {"", "deepseek_r1", "<think>a < b</think>\n\nc", {"c", "a < b", {}}},
    {"", "deepseek_r1", "a", {"", "a", {}}, true},
    {"", "deepseek_r1", "a", {"a", "", {}}, false},
    {"", "granite", "Here is my thought process: a\nHere's my response: b", {"b", "a", {}}},
    {"", "hunyuan_a13b", "<think>\na\n</think>\n<answer>\nb\n</answer>", {"b\n", "a", {}}},
    {"", "minimax_m2_append_think", "a</think>b", {"<think>a</think>b", "", {}}},
    {"", "", "<think>a</think><tool_call>b\n", {"<think>a</think><tool_call>b\n", "", {}}},
};

AnswerParserOptions options_of(const Case& one) {
  AnswerParserOptions options;
  options.tool_parser = one.tool;
  options.reasoning_parser = one.reasoning;
  options.tools = tools();
  options.starts_in_reasoning = one.starts;
  return options;
}

TEST(AnswerParser, ReadsEachFormat) {
  for (const Case& one : kCases) {
    ParsedMessage message = parse_answer(options_of(one), one.text);
    ParsedMessage expected = one.expected;
    if (!expected.calls.empty()) {  // white space between content and calls is nobody's
      const std::size_t begin = expected.content.find_first_not_of(' ');
      expected.content.erase(0, begin == std::string::npos ? expected.content.size() : begin);
    }
    EXPECT_EQ(message, expected) << one.tool << "/" << one.reasoning << ": " << one.text;
  }
}

TEST(AnswerParser, EveryFormatHasACase) {
  for (const std::string_view name : tool_parser_names()) {
    static constexpr std::string_view kSameAsAnother[] = {"qwen3_xml",    "mimo",           "ling3",
                                                          "poolside_v1",  "llama4_json",    "ernie45",
                                                          "hunyuan_a13b", "cohere_command4"};
    bool found = std::ranges::find(kSameAsAnother, name) != std::end(kSameAsAnother);
    for (const Case& one : kCases) found = found || one.tool == name;
    EXPECT_TRUE(found) << name;
  }
}

TEST(AnswerParser, SaysTheSameForEveryCut) {
  for (const Case& one : kCases) expect_same_for_every_cut(options_of(one), one.text);
}

// The cases cut off, with bytes changed, doubled and left out, and each read as every other format.
TEST(AnswerParser, SaysTheSameForEveryCutOfBrokenText) {
  std::mt19937 random(7);
  const auto below = [&](std::size_t limit) { return random() % limit; };
  for (int round = 0; round < 12; ++round) {
    for (const Case& one : kCases) {
      std::string text = one.text;
      const Case& other = kCases[below(std::size(kCases))];
      switch (below(5)) {
        case 0:
          text.resize(below(text.size()));
          break;
        case 1:
          text.erase(below(text.size()), 1 + below(4));
          break;
        case 2:
          text[below(text.size())] = "<>{}[]\"'\\:, \n|"[below(14)];
          break;
        case 3:
          text.insert(below(text.size()), std::string(other.text).substr(0, 1 + below(40)));
          break;
        default:
          text += other.text;
      }
      const ParsedMessage whole = parse_answer(options_of(one), text);
      for (const std::size_t step : {1, 2, 3, 7})
        ASSERT_EQ(parse_answer(options_of(one), text, step, step), whole)
            << one.tool << " in " << step << ": " << text;
      for (int cut = 0; cut < 8 && !text.empty(); ++cut)
        ASSERT_EQ(parse_answer(options_of(one), text, below(text.size()) + 1), whole)
            << one.tool << ": " << text;
      expect_same_for_every_cut(options_of(other), std::string_view(one.text).substr(0, below(60)));
    }
  }
}

// A text that reads as a number, or a value of another type, is what the schema lists of the two.
TEST(AnswerParser, ListedValuesKeepTheirTypes) {
  const std::pair<const char*, std::array<const char*, 3>> kSchemas[] = {
      {R"({"enum": ["1", "auto", 2]})", {R"("1")", "2", R"("auto")"}},
      {R"({"type": ["string", "integer"], "enum": ["1", "auto", 2]})", {R"("1")", "2", R"("auto")"}},
      {R"({"anyOf": [{"const": "1"}, {"const": 2}, {"enum": ["auto"]}]})", {R"("1")", "2", R"("auto")"}},
      {R"({"enum": [1, 2.0, "auto"]})", {"1", "2", R"("auto")"}},
      {R"({"enum": ["1", 1, 2, "auto"]})", {"1", "2", R"("auto")"}},
      {R"({"anyOf": [{"type": "integer"}, {"enum": ["1", "auto"]}]})", {"1", "2", R"("auto")"}},
      {R"({"type": "string", "enum": ["1", "2", "auto"]})", {R"("1")", R"("2")", R"("auto")"}},
  };
  for (const auto& [schema, expected] : kSchemas) {
    const auto parameters =
        boost::json::parse(std::string(R"({"type": "object", "properties": {"a": )") + schema + "}}");
    AnswerParserOptions options;
    options.tools = std::make_shared<const std::vector<DeclaredTool>>(
        std::vector<DeclaredTool>{{"f", parameters.get_object()}});
    const auto arguments = [&](const char* parser, const std::string& text) {
      options.tool_parser = parser;
      const ParsedMessage message = parse_answer(options, text);
      return message.calls.empty() ? message.content : message.calls.front().arguments;
    };
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const std::string value = std::array{"1", "2", "auto"}[i];
      const auto wanted = boost::json::parse(std::string(R"({"a": )") + expected[i] + "}");
      EXPECT_EQ(
          boost::json::parse(arguments("qwen3_coder", "<tool_call>\n<function=f>\n<parameter=a>\n" + value +
                                                          "\n</parameter>\n</function>\n</tool_call>")),
          wanted)
          << schema;
      EXPECT_EQ(boost::json::parse(arguments("glm45", "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>" +
                                                          value + "</arg_value>\n</tool_call>")),
                wanted)
          << schema;
    }
  }
}

// Text without any format comes out as it went in.
TEST(AnswerParser, PlainTextIsKept) {
  const std::string text =
      " 1 < 2, [3], {4} and \"5\"; <b>bold</b>, a\tb\r\n  ```c\nint x[] = {1};\n```\n ☃ ";
  for (const std::string_view name : tool_parser_names()) {
    AnswerParserOptions options;
    options.tool_parser = name;
    options.tools = tools();
    EXPECT_EQ(parse_answer(options, text).content, text) << name;
    options.calls_allowed = false;
    EXPECT_EQ(parse_answer(options, text).content, text) << name;
  }
  for (const std::string_view name : reasoning_parser_names()) {
    AnswerParserOptions options;
    options.reasoning_parser = name;
    options.starts_in_reasoning = false;
    const std::string prefix = name == "minimax_m2_append_think" ? "<think>" : "";
    EXPECT_EQ(parse_answer(options, text).content, prefix + text) << name;
  }
}

TEST(AnswerParser, WithoutToolsTheirMarkupIsText) {
  for (const Case& one : kCases) {
    const std::string_view tool = one.tool;
    if (tool.empty() || one.reasoning[0] != 0 || tool == "openai") continue;
    AnswerParserOptions options = options_of(one);
    options.calls_allowed = false;
    const ParsedMessage message = parse_answer(options, one.text);
    EXPECT_EQ(message.content, one.text);
    EXPECT_TRUE(message.calls.empty());
  }
}

TEST(AnswerParser, HarmonyMarkersAreTokens) {
  AnswerParserOptions options;
  options.tool_parser = "openai";
  options.reasoning_parser = "openai_gptoss";
  Result<AnswerParser> parser = AnswerParser::create(options);
  ASSERT_TRUE(parser);
  std::vector<AnswerEvent> events;
  const auto push = [&](std::string_view text, TokenId token, bool special) {
    parser->push({.text = text, .token = token, .special = special}, events);
  };
  push("<|channel|>", 1, true);
  push("final", 2, false);
  push("<|message|>", 3, true);
  push("It writes ", 4, false);
  push("<|end|>", 5, false);  // spelled, not said
  push(" behind each.", 6, false);
  push("<|padding|>", 7, true);  // means nothing here
  push("<|return|>", 8, true);
  parser->finish(events);
  ParsedMessage message;
  gather(events, message);
  EXPECT_EQ(message, (ParsedMessage{"It writes <|end|> behind each.", "", {}}));
}

TEST(AnswerParser, CallsAreToldAsSoonAsTheyAreWhole) {
  AnswerParserOptions options;
  options.tool_parser = "hermes";
  Result<AnswerParser> parser = AnswerParser::create(options);
  ASSERT_TRUE(parser);
  std::vector<AnswerEvent> events;
  parser->push({.text = "Hello <tool", .token = {}}, events);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].text, "Hello");  // the space may belong to a call
  parser->push({.text = "_call>{\"name\": \"f\", \"arguments\": {}", .token = {}}, events);
  EXPECT_EQ(events.size(), 1u);
  parser->push({.text = "}", .token = {}}, events);
  EXPECT_EQ(events.size(), 4u);
}

TEST(AnswerParser, TellsTheModelsOwnIds) {
  AnswerParserOptions options;
  options.tool_parser = "kimi_k2";
  Result<AnswerParser> parser = AnswerParser::create(options);
  ASSERT_TRUE(parser);
  std::vector<AnswerEvent> events;
  parser->push({.text = "<|tool_calls_section_begin|><|tool_call_begin|>functions.a.b:3"
                        "<|tool_call_argument_begin|>{}<|tool_call_end|>",
                .token = {}},
               events);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].text, "a.b");
  EXPECT_EQ(events[0].call_id, "functions.a.b:3");
}

TEST(AnswerParser, UnknownNamesAreRefused) {
  AnswerParserOptions options;
  options.tool_parser = "hermess";
  EXPECT_NE(AnswerParser::create(options).error().message().find("hermess"), std::string::npos);
  options.tool_parser = "openai";
  options.reasoning_parser = "qwen3";
  EXPECT_FALSE(AnswerParser::create(options));
  options.tool_parser = "";
  options.reasoning_parser = "no";
  EXPECT_FALSE(AnswerParser::create(options));
}

// Hostile text must not make the work grow faster than the text.
TEST(AnswerParser, LongTextIsLinear) {
  const std::string pieces[] = {"{\"name\": ",
                                "[[",
                                "<tool_call>",
                                "<think>",
                                "<parameter=a>",
                                "<invoke name=\"a\">",
                                "[TOOL_CALLS]a{",
                                "<|tool_call>call:a{b:",
                                "a(",
                                "]<]minimax[>[<a>",
                                "<co",
                                "<arg_key>"};
  for (const std::string_view name : tool_parser_names()) {
    for (const std::string& piece : pieces) {
      std::string text = "<tool_call><function=a><minimax:tool_call><|tool_call>call:f{<function_calls>[f(";
      while (text.size() < 60'000) text += piece;
      AnswerParserOptions options;
      options.tool_parser = name;
      parse_answer(options, text, 7, 7);
    }
  }
}

TEST(AnswerFormats, AreFoundInTemplates) {
  const auto found = [](std::string_view source) {
    const AnswerFormatNames names = detect_answer_formats(source);
    return names.tool_parser + "/" + names.reasoning_parser;
  };
  EXPECT_EQ(found("{{ '<tool_call>' }}{\"name\": 1, \"arguments\": 2}</tool_call>"), "hermes/");
  EXPECT_EQ(found("<tool_call>{\"arguments\"}</tool_call><think></think>"), "hermes/qwen3");
  EXPECT_EQ(found("<tool_call><function=a><parameter=b>\"arguments\"<think>"), "qwen3_coder/qwen3");
  EXPECT_EQ(found("<tool_call><arg_key><arg_value>\"arguments\"</think>"), "glm45/glm45");
  EXPECT_EQ(found("[TOOL_CALLS]"), "mistral/");
  EXPECT_EQ(found("<|channel|>analysis<|message|>"), "openai/openai_gptoss");
  EXPECT_EQ(found("<|start_header_id|>"), "/");
}

TEST(AnswerFormats, PromptsMayOpenTheReasoning) {
  EXPECT_EQ(prompt_opens_reasoning("qwen3", "<|im_start|>assistant\n<think>\n"), true);
  EXPECT_EQ(prompt_opens_reasoning("qwen3", "<|im_start|>assistant\n<think>\n\n</think>\n\n"), false);
  EXPECT_EQ(prompt_opens_reasoning("qwen3", "What is <think>?<|im_start|>assistant\n"), false);
  EXPECT_EQ(prompt_opens_reasoning("gemma4", "<|channel>thought\n"), true);
  EXPECT_EQ(prompt_opens_reasoning("openai_gptoss", "x"), std::nullopt);
}

}  // namespace
}  // namespace pagoda
