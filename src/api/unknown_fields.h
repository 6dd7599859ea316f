#pragma once
// Unknown fields of a body: accepted, as by other servers, and logged once by name, so that a misspelt one
// can be found. Bounded: after many names nothing more is logged. Threads: any.
#include <initializer_list>
#include <string_view>

#include "api/field_reader.h"

namespace pagoda {

// `harmless`: known fields without a meaning here.
void note_unknown_fields(const FieldReader& fields, std::string_view protocol,
                         std::initializer_list<std::string_view> harmless);

}  // namespace pagoda
