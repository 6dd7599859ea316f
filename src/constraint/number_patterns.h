#pragma once
// Numbers that the compiler has no keyword for: multiples within bounds, decimals with a number of places.
// Threads: any.
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <optional>
#include <string>

namespace pagoda {

// The whole multiples within the bounds of `schema` (multipleOf; minimum or maximum or both), at most a
// thousand: those nearest to the bound, or to zero if there are two bounds. nullopt if they are too large.
std::optional<boost::json::array> multiples(const boost::json::object& schema);

// A regular expression for the decimals within [least, most] with up to `places` digits after the point. A
// bound that is not whole is rounded inwards to a whole number. nullopt if there are no such decimals.
std::optional<std::string> decimals(int places, std::optional<double> least, std::optional<double> most);

// Marks a pattern as matching a number rather than a string's content: no pattern of a schema begins with
// this character.
inline constexpr char kNumberPattern = '\x01';

}  // namespace pagoda
