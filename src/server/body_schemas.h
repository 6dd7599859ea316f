#pragma once
// What the bodies of routes that take JSON may hold, as JSON Schema, for /openapi.json. Made of what the parsers read of
// sample_bodies.h: body_schemas.inc is written by body_schemas_test.cc, which fails where it is no longer what they
// read.
#include <string_view>

namespace pagoda {

// Of the route at `path`; empty: of none.
std::string_view body_schema(std::string_view path);

}  // namespace pagoda
