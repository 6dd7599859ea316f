#pragma once
// The types of tools that clients declare, and how each is handled: one table for all protocols. Tools that
// run on the provider's own servers (web search, code execution) cannot be offered to the model and are left
// out. Source: OpenAI's OpenAPI files, Anthropic's API reference, Codex 0.163. Threads: any.
#include <cstdint>
#include <string_view>

namespace pagoda {

enum class ToolProtocol : std::uint8_t { chat, responses, messages };

enum class ToolForm : std::uint8_t {
  function,  // arguments follow a JSON Schema
  custom,    // input is one text, which may have a grammar
  group,     // tools under a common name
  known,     // run by the client; the type implies the schema
  left_out,
};

struct ToolType {
  std::string_view name;  // a final '*' matches anything: a version, a date
  ToolForm chat, responses, messages;
  std::string_view description = {}, parameters = {};  // for ToolForm::known

  ToolForm in(ToolProtocol protocol) const {
    return protocol == ToolProtocol::chat ? chat : protocol == ToolProtocol::responses ? responses : messages;
  }
};

// Null if the type is unknown.
const ToolType* find_tool_type(std::string_view name);

}  // namespace pagoda
