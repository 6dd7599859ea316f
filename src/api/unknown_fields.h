#pragma once
// Reports the unknown fields of a body. As on other servers, they are accepted; the answer's warnings and,
// once, the log name them, so that misspelt fields and fields of other servers can be found. Threads: any.
#include <initializer_list>
#include <string_view>

#include "api/field_reader.h"
#include "api/warnings.h"

namespace pagoda {

// `harmless`: known fields that have no effect here.
void note_unknown_fields(const FieldReader& fields, Warnings& warnings,
                         std::initializer_list<std::string_view> harmless);

}  // namespace pagoda
