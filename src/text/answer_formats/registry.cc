#include "text/answer_formats/registry.h"

#include <algorithm>

#include "text/answer_formats.h"
#include "text/answer_formats/think_tags.h"

namespace pagoda {
namespace answer {

const std::vector<ToolFormat>& tool_formats() {
  static const std::vector<ToolFormat> kFormats = [] {
    std::vector<ToolFormat> all = tag_call_formats();
    for (const auto& family : {python_call_formats(), header_call_formats(), json_block_formats()})
      all.insert(all.end(), family.begin(), family.end());
    all.push_back(mistral_format());
    return all;
  }();
  return kFormats;
}

const std::vector<MessageFormat>& message_formats() {
  static const std::vector<MessageFormat> kFormats = {harmony_format(), muse_glimmer_format(),
                                                      inkling_format()};
  return kFormats;
}

const ToolFormat* find_tool_format(std::string_view name) {
  for (const ToolFormat& format : tool_formats())
    if (format.name == name) return &format;
  return nullptr;
}

const MessageFormat* find_message_format_of_tools(std::string_view tool_parser) {
  for (const MessageFormat& format : message_formats())
    if (format.tool_parser == tool_parser) return &format;
  return nullptr;
}

const MessageFormat* find_message_format_of_reasoning(std::string_view reasoning_parser) {
  for (const MessageFormat& format : message_formats())
    if (contains(format.reasoning_parsers, reasoning_parser)) return &format;
  return nullptr;
}

namespace {

bool has_all(std::string_view text, const Markers& signs) {
  return !signs.empty() && std::ranges::all_of(signs, [&](std::string_view sign) {
    return text.find(sign) != std::string_view::npos;
  });
}

// Signs of templates that contain only the list of tools, not the calls.
struct ToolSign {
  std::string_view marker, tool_parser;
};
constexpr ToolSign kMoreToolSigns[] = {{"<|tool_list_start|>", "lfm2"}};

// Markers unique to one family; "<think>" is common to many, which are told apart by their tool format.
struct ReasoningSign {
  std::string_view marker, reasoning_parser;
};
constexpr ReasoningSign kReasoningSigns[] = {
    {"<seed:think>", "seed_oss"},
    {"<mm:think>", "minimax_m3"},
    {"[THINK]", "mistral"},
    {"◁think▷", "kimi"},
    {"<|channel>", "gemma4"},
    {"<|START_TEXT|>", "cohere_command4"},
    {"<|START_THINKING|>", "cohere_command3"},
    {"<|open|>think", "kimi_k3"},
    {"Here is my thought process:", "granite"},
    {"[BEGIN FINAL RESPONSE]", "apriel"},
};
struct ReasoningOfTools {
  std::string_view tool_parser, reasoning_parser;
};
constexpr ReasoningOfTools kReasoningOfTools[] = {
    {"hermes", "qwen3"},
    {"qwen3_coder", "qwen3"},
    {"deepseek_v31", "deepseek_v3"},
    {"deepseek_v32", "deepseek_v3"},
    {"deepseek_v4", "deepseek_v4"},
    {"glm45", "glm45"},
    {"minimax_m2", "minimax_m2"},
    {"kimi_k2", "kimi_k2"},
    {"hunyuan_a13b", "hunyuan_a13b"},
    {"ernie45", "ernie45"},
    {"hy_v3", "hy_v3"},
    {"step3", "step3"},
    {"olmo3", "olmo3"},
};

}  // namespace
}  // namespace answer

std::vector<std::string_view> tool_parser_names() {
  std::vector<std::string_view> names;
  for (const answer::ToolFormat& format : answer::tool_formats()) names.push_back(format.name);
  for (const answer::MessageFormat& format : answer::message_formats()) names.push_back(format.tool_parser);
  return names;
}

std::vector<std::string_view> reasoning_parser_names() {
  std::vector<std::string_view> names;
  for (const answer::ThinkTags& tags : answer::think_tags()) names.push_back(tags.name);
  for (const answer::MessageFormat& format : answer::message_formats())
    names.insert(names.end(), format.reasoning_parsers.begin(), format.reasoning_parsers.end());
  return names;
}

bool reads_whole_messages(std::string_view tool_parser) {
  return answer::find_message_format_of_tools(tool_parser) != nullptr;
}

AnswerFormatNames detect_answer_formats(std::string_view source) {
  for (const answer::MessageFormat& format : answer::message_formats()) {
    if (answer::has_all(source, format.template_signs))
      return {std::string(format.tool_parser), std::string(format.reasoning_parsers.front())};
  }
  AnswerFormatNames names;
  // Chooses the format with the longest matching signs: "<tool_call>" occurs in many.
  std::size_t most = 0;
  for (const answer::ToolFormat& format : answer::tool_formats()) {
    if (!answer::has_all(source, format.template_signs)) continue;
    std::size_t length = 0;
    for (const std::string_view sign : format.template_signs) length += sign.size();
    if (names.tool_parser == "hermes" || most == 0 || (length > most && format.name != "hermes")) {
      names.tool_parser = format.name;
      most = length;
    }
  }
  for (const auto& [marker, parser] : answer::kMoreToolSigns)
    if (names.tool_parser.empty() && source.find(marker) != std::string_view::npos)
      names.tool_parser = parser;
  if (names.tool_parser == "kimi_k3") names.reasoning_parser = "kimi_k3";  // its tags are assembled by macros
  for (const auto& [marker, parser] : answer::kReasoningSigns) {
    if (source.find(marker) == std::string_view::npos) continue;
    names.reasoning_parser = parser;
    return names;
  }
  if (!names.reasoning_parser.empty()) return names;
  if (source.find("</think>") == std::string_view::npos && source.find("<think>") == std::string_view::npos)
    return names;
  names.reasoning_parser = "deepseek_r1";
  for (const auto& [tools, parser] : answer::kReasoningOfTools)
    if (tools == names.tool_parser) names.reasoning_parser = parser;
  return names;
}

std::optional<bool> prompt_opens_reasoning(std::string_view reasoning_parser, std::string_view prompt) {
  const answer::ThinkTags* tags = answer::find_think_tags(reasoning_parser);
  if (tags == nullptr || tags->begin.empty()) return std::nullopt;
  while (!prompt.empty() && std::string_view(" \t\r\n").find(prompt.back()) != std::string_view::npos)
    prompt.remove_suffix(1);
  if (!tags->label.empty() && prompt.ends_with(tags->label)) prompt.remove_suffix(tags->label.size());
  return std::ranges::any_of(tags->begin, [&](std::string_view marker) { return prompt.ends_with(marker); });
}

}  // namespace pagoda
