#pragma once
// plain_numbers(): JSON with numbers in plain decimal notation. Boost.JSON writes 686.8 as 6.868E2.
#include <string>
#include <string_view>

namespace pagoda {

// `json`, which must be valid, with each number that has an exponent replaced by the shortest text that reads
// back as the same double. Text inside strings is unchanged.
std::string plain_numbers(std::string_view json);

}  // namespace pagoda
