#pragma once
// References by address: rewrites `$id`, `$anchor`, and references to them into references by place within
// the schema ("#/$defs/x"), the only form that the rest of constraint/ reads. References to addresses outside
// the schema are left as they are, and are refused when followed: nothing is fetched. Source: JSON Schema
// 2020-12 §8.2, RFC 3986 §5.2. Threads: any.
#include <boost/json/value.hpp>

namespace pagoda {

boost::json::value references_by_place(const boost::json::value& schema);

}  // namespace pagoda
