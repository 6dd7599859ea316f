#pragma once
// DeclaredTools: `tools` as a client declares them -> the tools shown to the model. Groups are flattened: the
// model sees tool "read" of namespace "files" as "files__read" (or another name if that is taken), and calls
// are returned under the declared name (tool_origins.h). A custom tool is shown as a function of one string.
// Tools that run on the provider's servers are left out with a warning (tool_types.h).
//
//     read()* -> settle() -> model_name()*, restrict_to(), take_tools()
//
// Invariants: the names shown are distinct; a function outside any group keeps its own name; equal
// declarations give equal names. Errors go to the FieldReader, which names the field. Threads: none.
#include <boost/json/array.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/field_reader.h"
#include "api/tool_origins.h"
#include "api/tool_types.h"
#include "api/warnings.h"
#include "text/conversation.h"

namespace pagoda {

class DeclaredTools {
 public:
  explicit DeclaredTools(ToolProtocol protocol) : protocol_(protocol) {}

  // Reads the list `name` of `owner`, if present. A tool declared again replaces the earlier one.
  void read(FieldReader& owner, std::string_view name, Warnings& warnings);
  void settle();

  ToolProtocol protocol() const { return protocol_; }
  bool empty() const { return tools_.empty(); }
  // The name shown for a tool of `group`; empty if not declared. An empty `group` matches any group,
  // preferring tools without one.
  std::string find(std::string_view group, std::string_view name) const;
  // Likewise for a past call, whose tool may no longer be declared.
  std::string model_name(std::string_view group, std::string_view name) const;
  // The names shown for all tools of a group.
  std::vector<std::string> tools_of(std::string_view group) const;
  // True if a tool of this type or name was declared and left out.
  bool left_out(std::string_view type_or_name) const { return left_out_.contains(type_or_name); }
  bool any_left_out() const { return !left_out_.empty(); }
  bool shows(std::string_view name) const;

  // Keeps only the tools with these names; others are not shown and cannot be called.
  void restrict_to(const std::set<std::string>& names);
  ToolOrigins origins() const;
  std::vector<ToolSpec> take_tools();

 private:
  struct Tool {
    std::string group, name;
    bool custom = false;
    ToolSpec spec = {};
  };

  void read_tool(FieldReader& tool, const boost::json::object& value, std::string_view group,
                 Warnings& warnings);
  void read_list(FieldReader& owner, std::string_view name, const boost::json::array& list,
                 std::string_view group, Warnings& warnings);
  void read_function(FieldReader& tool, const boost::json::object& value, std::string_view group);
  void read_custom(FieldReader& tool, std::string_view group);
  void read_group(FieldReader& tool, Warnings& warnings);
  void add(Tool tool);

  const ToolProtocol protocol_;
  std::vector<Tool> tools_;
  std::set<std::string, std::less<>> left_out_;
};

}  // namespace pagoda
