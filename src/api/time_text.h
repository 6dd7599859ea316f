#pragma once
// Formats points in time for APIs.
#include <cstdint>
#include <string>

namespace pagoda {

// "2026-07-01T12:00:00Z"
std::string rfc3339(std::int64_t unix_seconds);

}  // namespace pagoda
