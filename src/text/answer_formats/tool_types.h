#pragma once
// ToolTypes: the tools of a request, and what their JSON schemas say of the types of arguments. The formats
// that write arguments as bare text ask it for a value of the right type. Not a validator: what does not fit
// stays text. Source: vLLM's rule of coercion, which tries null, integer, number, boolean, object, array,
// string, in this order, among the types that the schema allows; no type known means string. "$ref" into
// "$defs" is followed besides. Threads: any; const.
#include <boost/json/value.hpp>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "text/answer_parser.h"

namespace pagoda::answer {

class ToolTypes {
 public:
  explicit ToolTypes(std::shared_ptr<const std::vector<DeclaredTool>> tools) : tools_(std::move(tools)) {}

  bool empty() const { return tools_ == nullptr || tools_->empty(); }
  const DeclaredTool* find(std::string_view name) const;

  // The schema of a tool's argument; null where there is none.
  static const boost::json::value* property(const DeclaredTool* tool, std::string_view key);

  // `python`: Python's literals are read where JSON's are.
  struct Reading {
    bool python = false;
  };
  // Bare text as the schema's type; without a schema it stays text.
  static boost::json::value from_text(std::string_view text, const DeclaredTool* tool,
                                      const boost::json::value* schema, Reading reading = {false});
  // A value that has a type already, brought to the schema's where that can be done, in depth.
  static boost::json::value coerced(boost::json::value value, const DeclaredTool* tool,
                                    const boost::json::value* schema);
  // Whether there is a schema and it allows strings.
  static bool allows_text(const DeclaredTool* tool, const boost::json::value* schema);

 private:
  std::shared_ptr<const std::vector<DeclaredTool>> tools_;
};

}  // namespace pagoda::answer
