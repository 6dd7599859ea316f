#pragma once
// Fields of a body that nobody here knows: accepted, as other servers do, and named once in the log, so that
// a misspelt one can be found. Bounded: after many names nothing more is said. Threads: any.
#include <initializer_list>
#include <string_view>

#include "api/field_reader.h"

namespace pagoda {

// `harmless`: known, and without a meaning here.
void note_unknown_fields(const FieldReader& fields, std::string_view protocol,
                         std::initializer_list<std::string_view> harmless);

}  // namespace pagoda
