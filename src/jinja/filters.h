#pragma once
// jinja2's filters by name, including transformers' tojson. The functions are in filters_*.cc.
#include <string_view>

#include "jinja/value.h"

namespace pagoda::jinja {

NativeFunction find_filter(std::string_view name);  // null if there is none
bool is_filter(std::string_view name);

// One entry of the tables that filters_*.cc contribute.
struct NamedFunction {
  std::string_view name;
  NativeFunction function;
};

}  // namespace pagoda::jinja
