#pragma once
// JSON Schemas of the bodies of routes that take JSON, for /openapi.json. Generated from the fields that
// parsers read from sample_bodies.h: body_schemas_test.cc writes body_schemas.inc, and fails if it is out of
// date. Threads: any.
#include <string_view>

namespace pagoda {

// The schema of the route at `path`; empty if it has none.
std::string_view body_schema(std::string_view path);

}  // namespace pagoda
