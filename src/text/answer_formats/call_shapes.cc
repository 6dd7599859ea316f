// The shapes of calls: one row per format that a grammar can constrain.
#include "text/answer_formats/think_tags.h"
#include "text/call_shape.h"

namespace pagoda {
namespace {

constexpr std::string_view kName = R"({"name": ")";
constexpr std::string_view kArguments = R"(", "arguments": )";
constexpr std::string_view kParameters = R"(", "parameters": )";

// Helpers: several formats write their calls in one of the following shapes.
constexpr CallShape hermes(std::string_view parser) {
  return {.tool_parser = parser,
          .begin = "<tool_call>\n{\"name\": \"",
          .middle = kArguments,
          .end = "}\n</tool_call>",
          .separator = "\n",
          .mark = "<tool_call>"};
}
constexpr CallShape qwen_xml(std::string_view parser) {
  return {.tool_parser = parser,
          .begin = "<tool_call>\n<function=",
          .middle = ">\n",
          .end = "</function>\n</tool_call>",
          .separator = "\n",
          .style = "qwen",
          .mark = "<tool_call>"};
}
constexpr CallShape glm_xml(std::string_view parser) {
  return {.tool_parser = parser,
          .begin = "<tool_call>",
          .middle = "\n",
          .end = "</tool_call>",
          .separator = "\n",
          .style = "glm"};
}
// One JSON list of all calls, between `begin` and `end`.
constexpr CallShape json_list(std::string_view parser, std::string_view begin, std::string_view end,
                              std::string_view mark) {
  return {.tool_parser = parser,
          .begin = kName,
          .middle = kArguments,
          .end = "}",
          .section_begin = begin,
          .section_end = end,
          .separator = ", ",
          .mark = mark};
}

constexpr CallShape cohere(std::string_view parser) {
  return {.tool_parser = parser,
          .begin = R"({"tool_call_id": "0", "tool_name": ")",
          .middle = kParameters,
          .end = "}",
          .section_begin = "<|START_ACTION|>[",
          .section_end = "]<|END_ACTION|>",
          .repeats = false,
          .mark = "<|START_ACTION|>"};
}

constexpr CallShape pythonic(std::string_view parser) {
  return {.tool_parser = parser,
          .begin = "",
          .middle = "(",
          .end = ")",
          .section_begin = "[",
          .section_end = "]",
          .separator = ", ",
          .style = "python",
          .marked = false};
}

const CallShape kShapes[] = {
    hermes("hermes"),
    hermes("granite4"),
    hermes("ernie45"),
    {.tool_parser = "longcat",
     .begin = "<longcat_tool_call>\n{\"name\": \"",
     .middle = kArguments,
     .end = "}\n</longcat_tool_call>",
     .separator = "\n",
     .mark = "<longcat_tool_call>"},
    json_list("nemotron_json", "<TOOLCALL>[", "]</TOOLCALL>", "<TOOLCALL>"),
    {.tool_parser = "llama3_json", .begin = kName, .middle = kParameters, .end = "}", .separator = "; "},
    {.tool_parser = "llama4_json", .begin = kName, .middle = kParameters, .end = "}", .separator = "; "},
    json_list("granite", "<|tool_call|>[", "]", "<|tool_call|>"),
    {.tool_parser = "granite-20b-fc",
     .begin = "<function_call> {\"name\": \"",
     .middle = kArguments,
     .end = "}",
     .separator = "\n",
     .mark = "<function_call>"},
    json_list("jamba", "<tool_calls>[", "]</tool_calls>", "<tool_calls>"),
    json_list("hunyuan_a13b", "<tool_calls>[", "]</tool_calls>", "<tool_calls>"),
    json_list("apriel", "<tool_calls>[", "]</tool_calls>", "<tool_calls>"),
    json_list("phi4_mini_json", "functools[", "]", "functools"),
    {.tool_parser = "xlam",
     .begin = kName,
     .middle = kArguments,
     .end = "}",
     .section_begin = "[",
     .section_end = "]",
     .separator = ", ",
     .marked = false},
    {.tool_parser = "mistral",  // newer models
     .begin = "[TOOL_CALLS]",
     .middle = "[ARGS]",
     .end = "",
     .token = "[ARGS]"},
    json_list("mistral", "[TOOL_CALLS][", "]", "[TOOL_CALLS]"),
    {.tool_parser = "internlm",
     .begin = "<|action_start|><|plugin|>{\"name\": \"",
     .middle = kParameters,
     .end = "}<|action_end|>",
     .repeats = false,
     .mark = "<|action_start|>"},
    {.tool_parser = "apertus",
     .begin = "{\"",
     .middle = "\": ",
     .end = "}",
     .section_begin = "<|tools_prefix|>[",
     .section_end = "]<|tools_suffix|>",
     .separator = ", ",
     .mark = "<|tools_prefix|>"},
    {.tool_parser = "deepseek_v3",
     .begin = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
     .middle = "\n```json\n",
     .end = "\n```<｜tool▁call▁end｜>",
     .section_begin = "<｜tool▁calls▁begin｜>",
     .section_end = "<｜tool▁calls▁end｜>",
     .separator = "\n"},
    {.tool_parser = "deepseek_v31",
     .begin = "<｜tool▁call▁begin｜>",
     .middle = "<｜tool▁sep｜>",
     .end = "<｜tool▁call▁end｜>",
     .section_begin = "<｜tool▁calls▁begin｜>",
     .section_end = "<｜tool▁calls▁end｜>"},
    {.tool_parser = "kimi_k2",
     .begin = "<|tool_call_begin|>functions.",
     .middle = ":0<|tool_call_argument_begin|>",
     .end = "<|tool_call_end|>",
     .section_begin = "<|tool_calls_section_begin|>",
     .section_end = "<|tool_calls_section_end|>",
     .repeats = false},
    qwen_xml("qwen3_coder"),
    qwen_xml("qwen3_xml"),
    {.tool_parser = "seed_oss",
     .begin = "<seed:tool_call>\n<function=",
     .middle = ">\n",
     .end = "</function>\n</seed:tool_call>",
     .separator = "\n",
     .style = "qwen",
     .mark = "<seed:tool_call>"},
    qwen_xml("mimo"),
    qwen_xml("step3p5"),
    glm_xml("glm45"),
    glm_xml("ling3"),
    glm_xml("poolside_v1"),
    {.tool_parser = "glm47",
     .begin = "<tool_call>",
     .middle = "",
     .end = "</tool_call>",
     .style = "glm_dense"},
    {.tool_parser = "minimax_m2",
     .begin = "<invoke name=\"",
     .middle = "\">\n",
     .end = "</invoke>\n",
     .section_begin = "<minimax:tool_call>\n",
     .section_end = "</minimax:tool_call>",
     .style = "invoke",
     .mark = "<minimax:tool_call>"},
    {.tool_parser = "hy_v3",
     .begin = "<tool_call>",
     .middle = "<tool_sep>\n",
     .end = "</tool_call>",
     .section_begin = "<tool_calls>\n",
     .section_end = "\n</tool_calls>",
     .separator = "\n",
     .style = "glm",
     .mark = "<tool_calls>"},
    {.tool_parser = "dots",
     .begin = "<invoke name=\"",
     .middle = "\">\n",
     .end = "</invoke>\n",
     .section_begin = "<dots_function_call>\n",
     .section_end = "</dots_function_call>",
     .style = "invoke",
     .mark = "<dots_function_call>"},
    {.tool_parser = "deepseek_v32",
     .begin = "<｜DSML｜invoke name=\"",
     .middle = "\">\n",
     .end = "</｜DSML｜invoke>\n",
     .section_begin = "<｜DSML｜function_calls>\n",
     .section_end = "</｜DSML｜function_calls>",
     .style = "dsml",
     .mark = "<｜DSML｜function_calls>"},
    {.tool_parser = "deepseek_v4",
     .begin = "<｜DSML｜invoke name=\"",
     .middle = "\">\n",
     .end = "</｜DSML｜invoke>\n",
     .section_begin = "<｜DSML｜tool_calls>\n",
     .section_end = "</｜DSML｜tool_calls>",
     .style = "dsml",
     .mark = "<｜DSML｜tool_calls>"},
    pythonic("pythonic"),
    pythonic("llama4_pythonic"),
    {.tool_parser = "lfm2",
     .begin = "",
     .middle = "(",
     .end = ")",
     .section_begin = "<|tool_call_start|>[",
     .section_end = "]<|tool_call_end|>",
     .separator = ", ",
     .style = "python",
     .mark = "<|tool_call_start|>"},
    {.tool_parser = "olmo3",
     .begin = "",
     .middle = "(",
     .end = ")",
     .section_begin = "<function_calls>",
     .section_end = "</function_calls>",
     .separator = "\n",
     .style = "python"},
    {.tool_parser = "gemma4",
     .begin = "<|tool_call>call:",
     .middle = "{",
     .end = "}<tool_call|>",
     .style = "gemma",
     .mark = "<|tool_call>"},
    {.tool_parser = "functiongemma",
     .begin = "<start_function_call>call:",
     .middle = "{",
     .end = "}<end_function_call>",
     .style = "function_gemma",
     .mark = "<start_function_call>"},
    {.tool_parser = "step3",
     .begin = "<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name=\"",
     .middle = "\">\n",
     .end = "</steptml:invoke><｜tool_call_end｜>",
     .section_begin = "<｜tool_calls_begin｜>\n",
     .section_end = "\n<｜tool_calls_end｜>",
     .separator = "\n",
     .style = "steptml",
     .mark = "<｜tool_calls_begin｜>"},
    {.tool_parser = "minicpm5",
     .begin = "<function name=\"",
     .middle = "\">",
     .end = "</function>",
     .separator = "\n",
     .style = "param"},
    {.tool_parser = "muse_glimmer",
     .begin = " to=",
     .middle = "<|message|><atem:function_calls>\n<atem:invoke name=\"{name}\">\n",
     .end = "</atem:invoke>\n</atem:function_calls>",
     .style = "atem",
     .repeats = false,
     .marked = false},
    cohere("cohere_command3"),
    cohere("cohere_command4"),
    {.tool_parser = "gigachat3",
     .begin = "function call<|role_sep|>\n{\"name\": \"",
     .middle = kArguments,
     .end = "}",
     .repeats = false,
     .mark = "function call<|role_sep|>",
     .token = "<|role_sep|>"},
    {.tool_parser = "gigachat3",  // 3.1
     .begin = "<|function_call|>{\"name\": \"",
     .middle = kArguments,
     .end = "}",
     .repeats = false,
     .mark = "<|function_call|>"},
    {.tool_parser = "openai",
     .begin = "<|channel|>commentary to=functions.",
     .middle = " <|constrain|>json<|message|>",
     .end = "",  // <|call|> ends the answer
     .repeats = false,
     .token = "<|message|>",
     .by_token = true},
    {.tool_parser = "inkling",
     .begin = "<|content_invoke_tool_json|>{\"name\": \"",
     .middle = "\", \"args\": ",
     .end = "}",
     .repeats = false,
     .mark = "<|content_invoke_tool_json|>"},
};

}  // namespace

std::span<const CallShape> call_shapes() { return kShapes; }

const CallShape* find_call_shape(std::string_view tool_parser, const KnowsToken& knows_token) {
  for (const CallShape& shape : kShapes)
    if (shape.tool_parser == tool_parser && (shape.token.empty() || knows_token(shape.token))) return &shape;
  return nullptr;
}

const CallShape& hermes_call_shape() { return kShapes[0]; }

ReasoningShape reasoning_shape(std::string_view parser) {
  if (parser == "openai" || parser == "openai_gptoss" || parser == "gpt_oss")
    return {.begin = "<|channel|>analysis<|message|>",
            .end = "<|end|>",
            .behind = "<|start|>assistant",
            .answer_begin = "<|channel|>final<|message|>",
            .by_token = true};
  const answer::ThinkTags* tags = answer::find_think_tags(parser);
  if (tags == nullptr || tags->begin.empty() || tags->end.empty()) return {};
  ReasoningShape shape{.begin = tags->begin.front(), .end = tags->end.front()};
  shape.more_ends.assign(tags->end.begin() + 1, tags->end.end());
  return shape;
}

}  // namespace pagoda
