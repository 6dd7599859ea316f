#include "cli/assembly/tekken_template.h"

#include <boost/json.hpp>
#include <charconv>

#include "base/json_cursor.h"
#include "base/strings.h"

namespace pagoda {
namespace {

// Returns 7 for "v7" or "v7m1"; 0 if there is no version.
int version_of(std::string_view tekken_json) {
  std::string_view config_text;
  JsonCursor cursor(tekken_json);
  const Status status = cursor.read_object([&](const std::string& key) {
    return key == "config" ? cursor.raw_value(config_text) : cursor.skip_value();
  });
  boost::system::error_code error;
  const boost::json::value config = boost::json::parse(config_text, error);
  if (!status.ok() || error || !config.is_object()) return 0;
  const boost::json::value* const version = config.get_object().if_contains("version");
  if (version == nullptr || !version->is_string()) return 0;
  const std::string_view text = version->get_string();
  int number = 0;
  if (text.starts_with('v')) std::from_chars(text.data() + 1, text.data() + text.size(), number);
  return number;
}

// The parts of the template that differ between versions.
struct Pieces {
  // True: at the beginning, between two tokens. False: before the last user message.
  bool system_prompt = true;
  bool tools_first = false;  // true: before the first user message; false: before the last one
  std::string_view call, result;
  std::string_view thought = {};
};

constexpr std::string_view kListedCall =
    "{{- ('[TOOL_CALLS][' if loop.first else ', ') + '{\"name\": ' + call.function.name | tojson "
    "+ ', \"arguments\": ' + arguments + ', \"id\": ' + call.id | tojson + '}' + (']' if loop.last else '') "
    "-}}\n";
constexpr std::string_view kResultById =
    "{{- '[TOOL_RESULTS]' + message.tool_call_id + '[TOOL_CONTENT]' + message.content + '[/TOOL_RESULTS]' "
    "-}}\n";

Pieces pieces_of(int version) {
  if (version < 7)
    return {.system_prompt = false,
            .call = kListedCall,
            .result =
                "{{- '[TOOL_RESULTS]{\"content\": ' + (message.content if message.content[:1] in ['{', '['] "
                "else message.content | tojson) + ', \"call_id\": ' + message.tool_call_id | tojson "
                "+ '}[/TOOL_RESULTS]' -}}\n"};
  if (version < 11) return {.call = kListedCall, .result = kResultById};
  if (version < 13)
    return {
        .call =
            "{{- '[TOOL_CALLS]' + call.function.name + '[CALL_ID]' + call.id + '[ARGS]' + arguments -}}\n",
        .result = kResultById};
  return {.tools_first = true,
          .call = "{{- '[TOOL_CALLS]' + call.function.name + '[ARGS]' + arguments -}}\n",
          .result = "{{- '[TOOL_RESULTS]' + message.content + '[/TOOL_RESULTS]' -}}\n",
          .thought =
              "{%- if message.reasoning_content -%}"
              "{{- '[THINK]' + message.reasoning_content + '[/THINK]' -}}{%- endif -%}\n"};
}

}  // namespace

std::string template_of_tekken(std::string_view tekken_json) {
  const int version = version_of(tekken_json);
  if (version < 3) return {};
  const Pieces pieces = pieces_of(version);
  return concat(
      "{%- set ns = namespace(system='', first=-1, last=-1) -%}\n"
      "{%- for message in messages -%}\n"
      "{%- if message.role == 'user' -%}\n"
      "{%- if ns.first < 0 -%}{%- set ns.first = loop.index0 -%}{%- endif -%}\n"
      "{%- set ns.last = loop.index0 -%}\n",
      pieces.system_prompt ? ""
                           : "{%- elif message.role == 'system' -%}\n"
                             "{%- set ns.system = ns.system + message.content + '\\n\\n' -%}\n",
      "{%- endif -%}\n"
      "{%- endfor -%}\n"
      "{{- '<s>' -}}\n"
      "{%- for message in messages -%}\n"
      "{%- if message.role == 'user' -%}\n"
      "{%- if tools and loop.index0 == ",
      pieces.tools_first ? "ns.first" : "ns.last",
      " -%}{{- '[AVAILABLE_TOOLS]' + tools | tojson + '[/AVAILABLE_TOOLS]' -}}{%- endif -%}\n"
      "{{- '[INST]' + (ns.system if loop.index0 == ns.last else '') + message.content + '[/INST]' -}}\n",
      pieces.system_prompt ? "{%- elif message.role == 'system' -%}\n"
                             "{{- '[SYSTEM_PROMPT]' + message.content + '[/SYSTEM_PROMPT]' -}}\n"
                           : "",
      "{%- elif message.role == 'assistant' -%}\n", pieces.thought,
      "{{- message.content or '' -}}\n"
      "{%- for call in message.tool_calls or [] -%}\n"
      "{%- set arguments = call.function.arguments if call.function.arguments is string "
      "else call.function.arguments | tojson -%}\n",
      pieces.call,
      "{%- endfor -%}\n"
      "{{- '</s>' -}}\n"
      "{%- elif message.role == 'tool' -%}\n",
      pieces.result,
      "{%- endif -%}\n"
      "{%- endfor -%}\n");
}

}  // namespace pagoda
