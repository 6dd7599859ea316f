#pragma once
// The formats of JSON Schema as patterns of whole texts. A pattern may have fewer texts than its format,
// never others: leap seconds, quoted local parts and the like are left out. Other names of formats are
// annotations. Source: JSON Schema 2020-12 §7.3 and the RFCs it names. Threads: any.
#include <string>
#include <string_view>

namespace pagoda {

struct StringFormat {
  std::string_view name;
  std::string_view pattern;
  std::string_view plain = {};  // one of fewer texts, which lengths can be said of
};

// Null: no format of that name is known.
const StringFormat* string_format(std::string_view name);

}  // namespace pagoda
