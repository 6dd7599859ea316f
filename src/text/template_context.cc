#include "text/template_context.h"

#include <utility>

namespace pagoda {
namespace {

namespace json = boost::json;

json::value shown(const Content& content) {
  if (content.form == Content::Form::none) return nullptr;
  if (content.form == Content::Form::text) return json::string(content.joined());
  json::array parts;
  for (const ContentPart& part : content.parts) parts.push_back({{"type", "text"}, {"text", part.text}});
  return parts;
}

// Reasoning is provided under both names that templates use.
json::object shown(ChatMessage& message) {
  json::object out{{"role", message.role}, {"content", shown(message.content)}};
  if (!message.tool_calls.empty()) {
    json::array& calls = out["tool_calls"].emplace_array();
    for (ToolCall& call : message.tool_calls) calls.push_back(std::move(call.shown));
  }
  if (message.name) out["name"] = *message.name;
  if (message.tool_call_id) out["tool_call_id"] = *message.tool_call_id;
  if (message.reasoning)
    for (const char* const name : {"reasoning_content", "thinking"}) out[name] = *message.reasoning;
  return out;
}

}  // namespace

json::object template_context(Conversation conversation, const TemplateTokens& tokens) {
  json::object context = std::move(conversation.template_kwargs);
  json::array& messages = context["messages"].emplace_array();
  for (ChatMessage& message : conversation.messages) messages.push_back(shown(message));
  context["tools"] = nullptr;
  if (!conversation.tools.empty()) {
    json::array& tools = context["tools"].emplace_array();
    for (ToolSpec& tool : conversation.tools) tools.push_back(std::move(tool.shown));
  }
  context["documents"] = std::move(conversation.documents);
  context["add_generation_prompt"] = conversation.add_generation_prompt;
  context["bos_token"] = tokens.bos;
  context["eos_token"] = tokens.eos;
  return context;
}

}  // namespace pagoda
