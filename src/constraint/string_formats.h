#pragma once
// The formats of JSON Schema as patterns for whole strings. A pattern may match fewer strings than its
// format, never more: leap seconds, quoted local parts and the like are excluded. Unknown format names are
// annotations. Source: JSON Schema 2020-12 §7.3 and the RFCs it names. Threads: any.
#include <string>
#include <string_view>

namespace pagoda {

struct StringFormat {
  std::string_view name;
  std::string_view pattern;
  std::string_view plain = {};  // a narrower pattern that can be combined with lengths
};

// Null if the format is unknown.
const StringFormat* string_format(std::string_view name);

}  // namespace pagoda
