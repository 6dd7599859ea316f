#pragma once
// For tests only: small chat templates, each with the rules and the refusals of a family of real templates.
#include <string_view>
#include <vector>

namespace pagoda {

struct TemplateSample {
  std::string_view name, source;
};

// Prints every role and content: ChatML as fine-tuners write it. Does not support tools.
inline constexpr std::string_view kChatml =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

// Qwen 2.5 and 3: omits all roles but these four; shows a later system message.
inline constexpr std::string_view kQwen3 = R"(
{%- if tools %}<|im_start|>system
{% if messages[0].role == 'system' %}{{ messages[0].content + '\n\n' }}{% endif %}<tools>
{%- for tool in tools %}
{{ tool | tojson }}{% endfor %}
</tools><|im_end|>
{% elif messages[0].role == 'system' %}<|im_start|>system
{{ messages[0].content }}<|im_end|>
{% endif %}
{%- for m in messages %}
{%- if m.content is string %}{% set content = m.content %}{% else %}{% set content = '' %}{% endif %}
{%- if m.role == 'user' or (m.role == 'system' and not loop.first) %}<|im_start|>{{ m.role }}
{{ content }}<|im_end|>
{% elif m.role == 'assistant' %}<|im_start|>assistant
{{ content }}{% for call in m.tool_calls or [] %}{{ '\n<tool_call>' }}
{"name": "{{ call.function.name }}", "arguments": {% if call.function.arguments is string %}{{ call.function.arguments }}{% else %}{{ call.function.arguments | tojson }}{% endif %}{{ '}\n' }}</tool_call>{% endfor %}<|im_end|>
{% elif m.role == 'tool' %}<|im_start|>user
<tool_response>
{{ content }}
</tool_response><|im_end|>
{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %})";

// Qwen 3.5 and later: accepts only a leading system message, requires a user message, iterates over
// arguments.
inline constexpr std::string_view kQwen35 = R"(
{%- macro show(content) %}{% if content is string %}{{ content }}{% elif content is none %}{% else %}
{%- for part in content %}{{ part.text }}{% endfor %}{% endif %}{% endmacro %}
{%- if messages | selectattr('role', 'equalto', 'user') | list | length == 0 %}{{ raise_exception('No user query found in messages.') }}{% endif %}
{%- for tool in tools or [] %}{{ tool | tojson }}
{% endfor %}
{%- for m in messages %}
{%- if m.role == 'system' %}{% if not loop.first %}{{ raise_exception('System message must be at the beginning.') }}{% endif %}<|im_start|>system
{{ show(m.content) }}<|im_end|>
{% elif m.role == 'user' %}<|im_start|>user
{{ show(m.content) }}<|im_end|>
{% elif m.role == 'assistant' %}<|im_start|>assistant
{{ show(m.content) }}{% for call in m.tool_calls or [] %}<function={{ call.function.name }}>
{%- for name, value in call.function.arguments | items %}<parameter={{ name }}>{{ value }}</parameter>{% endfor %}</function>{% endfor %}<|im_end|>
{% elif m.role == 'tool' %}<tool_response>{{ show(m.content) }}</tool_response>
{% else %}{{ raise_exception('Unexpected message role.') }}{% endif %}{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %})";

// GLM 4.6 and MiniMax M2: text or parts for users, but results and assistant messages are printed as given.
inline constexpr std::string_view kGlm = R"([gMASK]
{%- for tool in tools or [] %}{{ tool | tojson }}{% endfor %}
{%- for m in messages %}<|{{ m.role if m.role != 'tool' else 'observation' }}|>
{%- if m.role in ['user', 'system'] %}{% if m.content is string %}{{ m.content }}{% else %}{% for part in m.content %}{{ part.text }}{% endfor %}{% endif %}
{%- elif m.role in ['assistant', 'tool'] %}{{ m.content }}
{%- for call in m.tool_calls or [] %}<tool_call>{{ call.function.name }}
{%- for name, value in call.function.arguments.items() %}<arg_key>{{ name }}</arg_key><arg_value>{{ value }}</arg_value>{% endfor %}</tool_call>{% endfor %}{% endif %}{% endfor %}
{%- if add_generation_prompt %}<|assistant|>{% endif %})";

// Gemma 1 to 3: no system messages, no tools, strictly alternating turns.
inline constexpr std::string_view kGemma = R"({{ bos_token }}
{%- if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}
{%- for m in messages %}
{%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}<start_of_turn>{{ 'model' if m.role == 'assistant' else m.role }}
{{ m.content | trim }}<end_of_turn>
{% endfor %}{% if add_generation_prompt %}<start_of_turn>model
{% endif %})";

// Mistral Nemo: the system prompt precedes the last message, and only if that is the user's; ids of nine
// letters; no text beside calls; turns alternate, not counting calls and results.
inline constexpr std::string_view kMistral = R"(
{%- if messages[0].role == 'system' %}{% set system = messages[0].content %}{% set rest = messages[1:] %}{% else %}{% set rest = messages %}{% endif %}
{%- set ns = namespace(index=0) %}
{%- for m in rest %}{% if not (m.role == 'tool' or m.tool_calls is defined) %}
{%- if (m.role == 'user') != (ns.index % 2 == 0) %}{{ raise_exception('conversation roles must alternate') }}{% endif %}{% set ns.index = ns.index + 1 %}{% endif %}{% endfor %}{{ bos_token }}
{%- if tools %}[AVAILABLE_TOOLS]{{ tools | tojson }}[/AVAILABLE_TOOLS]{% endif %}
{%- for m in rest %}
{%- if m.role == 'user' %}[INST]{% if loop.last and system is defined %}{{ system + '\n\n' }}{% endif %}{{ m.content + '[/INST]' }}
{%- elif m.tool_calls is defined %}[TOOL_CALLS]
{%- for call in m.tool_calls %}{% if call.id | length != 9 %}{{ raise_exception('Tool call IDs should be alphanumeric strings with length 9!') }}{% endif %}{{ call.function | tojson }}{{ call.id }}{% endfor %}{{ eos_token }}
{%- elif m.role == 'assistant' %}{{ m.content + eos_token }}
{%- elif m.role == 'tool' %}{% if m.tool_call_id | length != 9 %}{{ raise_exception('Tool call IDs should be alphanumeric strings with length 9!') }}{% endif %}[TOOL_RESULTS]{{ m.content | string + m.tool_call_id }}[/TOOL_RESULTS]
{%- else %}{{ raise_exception('Only user and assistant roles are supported') }}{% endif %}{% endfor %})";

// Devstral and Mistral Small 3.2: use only the first part of a system prompt.
inline constexpr std::string_view kDevstral = R"(
{%- if tools %}[AVAILABLE_TOOLS]{{ tools | tojson }}[/AVAILABLE_TOOLS]{% endif %}
{%- for m in messages %}
{%- if m.role == 'system' %}[SYSTEM_PROMPT]{{ m.content if m.content is string else m.content[0].text }}[/SYSTEM_PROMPT]
{%- elif m.role == 'user' %}[INST]{% if m.content is string %}{{ m.content }}{% else %}{% for part in m.content %}{{ part.text }}{% endfor %}{% endif %}[/INST]
{%- elif m.role == 'assistant' %}{{ m.content }}{% for call in m.tool_calls or [] %}[TOOL_CALLS]{{ call.function.name }}[ARGS]{{ call.function.arguments | tojson }}{% endfor %}{{ eos_token }}
{%- elif m.role == 'tool' %}[TOOL_RESULTS]{{ m.content }}[/TOOL_RESULTS]{% endif %}{% endfor %})";

// Llama 3.x: one call per message, and no text beside it.
inline constexpr std::string_view kLlama3 = R"({{ bos_token }}
{%- for tool in tools or [] %}{{ tool | tojson }}
{% endfor %}
{%- for m in messages %}<|start_header_id|>
{%- if 'tool_calls' in m %}{% if m.tool_calls | length != 1 %}{{ raise_exception('This model only supports single tool-calls at once!') }}{% endif %}assistant<|end_header_id|>{{ m.tool_calls[0].function.name }}{{ m.tool_calls[0].function.arguments | tojson }}
{%- elif m.role in ['tool', 'ipython'] %}ipython<|end_header_id|>{{ m.content | tojson }}
{%- else %}{{ m.role }}<|end_header_id|>{{ m.content | trim }}{% endif %}<|eot_id|>{% endfor %}
{%- if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>{% endif %})";

// DeepSeek R1: system messages move to the front; calls are shown only if the content is null, with arguments
// as text.
inline constexpr std::string_view kDeepseek = R"(
{%- set ns = namespace(system='') %}{% for m in messages %}{% if m.role == 'system' %}{% set ns.system = m.content %}{% endif %}{% endfor %}{{ bos_token }}{{ ns.system }}
{%- for m in messages %}
{%- if m.role == 'user' %}<|User|>{{ m.content }}
{%- elif m.role == 'assistant' and m.content is none %}<|Assistant|>{% for call in m.tool_calls %}<|call|>{{ call.function.name + '\n' + call.function.arguments }}{% endfor %}<|end|>
{%- elif m.role == 'assistant' %}<|Assistant|>{{ m.content.split('</think>')[-1] }}<|end|>
{%- elif m.role == 'tool' %}<|output|>{{ m.content }}{% endif %}{% endfor %}
{%- if add_generation_prompt %}<|Assistant|><think>{% endif %})";

// gpt-oss: system or developer, only at the beginning; one call; descriptions are required.
inline constexpr std::string_view kHarmony = R"(
{%- set rest = messages[1:] if messages[0].role in ['developer', 'system'] else messages %}<|start|>developer<|message|>
{%- if messages[0].role in ['developer', 'system'] %}{{ messages[0].content }}{% endif %}
{%- for tool in tools or [] %}{{ '\n// ' + tool.function.description + '\ntype ' + tool.function.name }}{% endfor %}<|end|>
{%- set ns = namespace(call=none) %}
{%- for m in rest %}
{%- if m.role == 'assistant' and 'tool_calls' in m %}{% if m.content and m.thinking %}{{ raise_exception('Cannot pass both content and thinking') }}{% endif %}
{%- set ns.call = m.tool_calls[0].function.name %}<|start|>assistant to=functions.{{ ns.call }}<|message|>{{ m.tool_calls[0].function.arguments | tojson }}<|call|>
{%- elif m.role == 'assistant' %}{% set ns.call = none %}<|start|>assistant<|channel|>final<|message|>{{ m.content }}<|end|>
{%- elif m.role == 'tool' %}{% if ns.call is none %}{{ raise_exception('there was no previous assistant message with a tool call!') }}{% endif %}<|start|>functions.{{ ns.call }}<|message|>{{ m.content | tojson }}<|end|>
{%- elif m.role == 'user' %}<|start|>user<|message|>{{ m.content }}<|end|>{% endif %}{% endfor %}
{%- if add_generation_prompt %}<|start|>assistant{% endif %})";

// Kimi K2: a call is shown by its id, from which the function's name can be derived.
inline constexpr std::string_view kKimi = R"(
{%- for tool in tools or [] %}{{ tool | tojson }}{% endfor %}
{%- for m in messages %}<|im_{{ m.role }}|>
{%- if m.role == 'tool' %}## Return of {{ m.tool_call_id }}
{{ m.content }}
{%- else %}{{ m.content or '' }}{% for call in m.tool_calls or [] %}<|call|>{{ call.id }}<|argument|>{{ call.function.arguments | tojson }}{% endfor %}{% endif %}<|im_end|>{% endfor %}
{%- if add_generation_prompt %}<|im_assistant|>{% endif %})";

// Hermes' tool_use: tools are required, including all their optional fields.
inline constexpr std::string_view kHermes = R"(<tools>
{%- for tool in tools %}{{ tool.function.name + ': ' + tool.function.description }}
{%- for name, field in tool.function.parameters.properties.items() %} {{ name + ': ' + field.description }}{% endfor %}{% endfor %}</tools>
{%- for m in messages %}<|im_start|>{{ m.role }}
{{ m.content or '' }}{% for call in m.tool_calls or [] %}{{ call.function | tojson }}{% endfor %}<|im_end|>
{% endfor %})";

// Accepts only lists of parts as content.
inline constexpr std::string_view kPartsOnly =
    "{% for tool in tools or [] %}{{ tool | tojson }}{% endfor %}"
    "{% macro show(content) %}{% for part in content %}{{ part['text'] }}{% endfor %}{% endmacro %}"
    "{% for m in messages %}[{{ m['role'] }}]{{ show(m['content']) }}"
    "{% for call in m.tool_calls or [] %}{{ call.function | tojson }}{% endfor %}{% endfor %}";

inline std::vector<TemplateSample> template_samples() {
  return {{"chatml", kChatml},       {"qwen3", kQwen3},     {"qwen3.5", kQwen35},    {"glm", kGlm},
          {"gemma", kGemma},         {"mistral", kMistral}, {"devstral", kDevstral}, {"llama3", kLlama3},
          {"deepseek", kDeepseek},   {"harmony", kHarmony}, {"kimi", kKimi},         {"hermes", kHermes},
          {"parts only", kPartsOnly}};
}

}  // namespace pagoda
