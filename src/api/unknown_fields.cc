#include "api/unknown_fields.h"

#include <algorithm>
#include <string>

#include "base/strings.h"

namespace pagoda {

void note_unknown_fields(const FieldReader& fields, Warnings& warnings,
                         std::initializer_list<std::string_view> harmless) {
  constexpr std::size_t kMostNamed = 32;
  std::size_t num_named = 0;
  for (const std::string_view name : fields.unread()) {
    // Client input is shown only if it looks like a name.
    if (std::ranges::find(harmless, name) != harmless.end() || name_or_mark(name) != name) continue;
    if (++num_named > kMostNamed) return;
    const std::string path = fields.path_of(name);
    warnings.add(path, concat("the field '", path, "' is not known here and is left aside"));
  }
}

}  // namespace pagoda
