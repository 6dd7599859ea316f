#pragma once
// ToolOrigins: tools that the model sees under another name or in another form than the client declared.
// Calls are returned in the client's form. Plain data.
#include <functional>
#include <map>
#include <string>

namespace pagoda {

struct ToolOrigin {
  std::string group;    // OpenAI's namespace; empty: none
  std::string name;     // inside the group
  bool custom = false;  // its input is one text, which the model writes as the argument "input"

  bool operator==(const ToolOrigin&) const = default;
};

// By the model's name for the tool. Only tools that differ.
using ToolOrigins = std::map<std::string, ToolOrigin, std::less<>>;

}  // namespace pagoda
