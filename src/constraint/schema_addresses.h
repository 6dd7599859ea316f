#pragma once
// References by address: `$id`, `$anchor`, and what refers to them, become references by place within the
// schema
// ("#/$defs/x"), which is all that the rest of constraint/ reads. What is not in the schema stays as it is,
// and is refused where it is followed: nothing is fetched. Source: JSON Schema 2020-12 §8.2, RFC 3986 §5.2.
// Threads: any.
#include <boost/json/value.hpp>

namespace pagoda {

boost::json::value references_by_place(const boost::json::value& schema);

}  // namespace pagoda
