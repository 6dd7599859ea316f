#pragma once
// Numbers that no keyword of the compiler says: multiples within bounds, decimals of so many places. Threads:
// any.
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <optional>
#include <string>

namespace pagoda {

// The whole multiples within the bounds of `schema` (multipleOf; minimum or maximum or both), at most a
// thousand: those nearest to the bound, or to zero between two. Nothing: they are too large.
std::optional<boost::json::array> multiples(const boost::json::object& schema);

// An expression of the decimals with up to `places` behind the point that lie within [least, most]; between
// whole numbers alone where a bound is none. Nothing: there is none.
std::optional<std::string> decimals(int places, std::optional<double> least, std::optional<double> most);

// Marks a pattern as a number's, not a string content's: no pattern of a schema begins with it.
inline constexpr char kNumberPattern = '\x01';

}  // namespace pagoda
