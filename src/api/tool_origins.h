#pragma once
// ToolOrigins: tools shown to the model under another name or in another form than the client declared. Calls
// are returned in the client's form. Plain data.
#include <functional>
#include <map>
#include <string>

namespace pagoda {

struct ToolOrigin {
  std::string group;    // OpenAI's namespace; empty if none
  std::string name;     // inside the group
  bool custom = false;  // takes one text, which the model writes as the argument "input"

  bool operator==(const ToolOrigin&) const = default;
};

// Keyed by the model's name for the tool. Contains only tools that differ.
using ToolOrigins = std::map<std::string, ToolOrigin, std::less<>>;

}  // namespace pagoda
