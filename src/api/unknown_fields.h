#pragma once
// Unknown fields of a body: accepted, as by other servers, and named in the answer's warnings and once in the
// log, so that a misspelt one, or one that another server would heed, can be found. Threads: any.
#include <initializer_list>
#include <string_view>

#include "api/field_reader.h"
#include "api/warnings.h"

namespace pagoda {

// `harmless`: known fields without a meaning here.
void note_unknown_fields(const FieldReader& fields, Warnings& warnings,
                         std::initializer_list<std::string_view> harmless);

}  // namespace pagoda
