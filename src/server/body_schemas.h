#pragma once
// The bodies of routes that take JSON, as JSON Schema, for /openapi.json. Made of the fields that parsers
// read of sample_bodies.h: body_schemas_test.cc writes body_schemas.inc, and fails if it is out of date.
// Threads: any.
#include <string_view>

namespace pagoda {

// The schema of the route at `path`; empty: it has none.
std::string_view body_schema(std::string_view path);

}  // namespace pagoda
