#include "jinja/filters.h"

#include "jinja/filter_tables.h"

namespace pagoda::jinja {

NativeFunction find_filter(std::string_view name) {
  for (const auto& table :
       {text_filters(), number_filters(), sequence_filters(), select_filters(), markup_filters()}) {
    for (const NamedFunction& entry : table) {
      if (entry.name == name) return entry.function;
    }
  }
  return nullptr;
}

bool is_filter(std::string_view name) { return find_filter(name) != nullptr; }

}  // namespace pagoda::jinja
