#pragma once
// plain_numbers(): JSON with its numbers as people write them. Boost.JSON writes 686.8 as 6.868E2.
#include <string>
#include <string_view>

namespace pagoda {

// `json`, valid, with each number that has an exponent as the shortest text that reads back as the same
// double. Text inside strings stays.
std::string plain_numbers(std::string_view json);

}  // namespace pagoda
