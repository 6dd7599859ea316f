#include "api/unknown_fields.h"

#include <algorithm>
#include <string>

#include "api/warnings.h"
#include "base/log.h"
#include "base/strings.h"

namespace pagoda {

void note_unknown_fields(const FieldReader& fields, std::string_view protocol,
                         std::initializer_list<std::string_view> harmless) {
  for (const std::string_view name : fields.unread()) {
    // Client input is logged only where it is a name.
    if (std::ranges::find(harmless, name) != harmless.end() || name_or_mark(name) != name) continue;
    if (is_new_to_log(concat(protocol, "/", name)))
      log_warning("api",
                  concat("the field '", name, "' of a request (", protocol, ") is unknown and ignored"));
  }
}

}  // namespace pagoda
