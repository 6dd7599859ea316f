#pragma once
// ToolTypes: the tools of a request, and the argument types in their JSON schemas. Formats that write
// arguments as bare text use it to convert them to the right type. Not a validator: text that does not fit
// stays a string. Source: vLLM's coercion rule, which tries null, integer, number, boolean, object, array and
// string, in this order, among the types that the schema allows; without a known type it is a string.
// Additionally follows "$ref" into "$defs". Threads: any; const.
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

  // The schema of a tool's argument; null if there is none.
  static const boost::json::value* property(const DeclaredTool* tool, std::string_view key);

  // `python`: read Python literals instead of JSON.
  struct Reading {
    bool python = false;
  };
  // Converts bare text to the schema's type; without a schema it stays a string.
  static boost::json::value from_text(std::string_view text, const DeclaredTool* tool,
                                      const boost::json::value* schema, Reading reading = {false});
  // Converts a typed value to the schema's type where possible, recursively.
  static boost::json::value coerced(boost::json::value value, const DeclaredTool* tool,
                                    const boost::json::value* schema);
  // True if there is a schema and it allows strings.
  static bool allows_text(const DeclaredTool* tool, const boost::json::value* schema);

 private:
  std::shared_ptr<const std::vector<DeclaredTool>> tools_;
};

}  // namespace pagoda::answer
