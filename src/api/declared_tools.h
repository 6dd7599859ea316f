#pragma once
// DeclaredTools: `tools` as a client declares them -> the tools that the model is shown. Groups are
// flattened: a tool "read" of the namespace "files" is "files__read" to the model, or another name where that
// one is taken, and comes back as it was declared (tool_origins.h). A custom tool is shown as a function of
// one string. What the provider's servers would run is left out with a warning (tool_types.h).
//
//     read()* -> settle() -> model_name()*, restrict_to(), take_tools()
//
// Invariants: the names shown are distinct, and a function outside of any group keeps its own. The same
// declarations give the same names. Errors go to the FieldReader, which names the field. Threads: none.
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

  // The list `name` of `owner`; absent: none. A tool that is declared again replaces the one before.
  void read(FieldReader& owner, std::string_view name, Warnings& warnings);
  void settle();

  ToolProtocol protocol() const { return protocol_; }
  bool empty() const { return tools_.empty(); }
  // The name shown for a tool of that group (empty: any, but best one of no group); empty: it is not
  // declared.
  std::string find(std::string_view group, std::string_view name) const;
  // The same for a call of the past, whose tool need not be declared any more.
  std::string model_name(std::string_view group, std::string_view name) const;
  // The names shown of all tools of a group.
  std::vector<std::string> tools_of(std::string_view group) const;
  // Whether a tool of this type, or of this name, was declared and left out.
  bool left_out(std::string_view type_or_name) const { return left_out_.contains(type_or_name); }
  bool any_left_out() const { return !left_out_.empty(); }
  bool shows(std::string_view name) const;

  // Only the tools of these names may be called, and are shown.
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
