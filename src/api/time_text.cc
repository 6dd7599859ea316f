#include "api/time_text.h"

#include <ctime>

namespace pagoda {

std::string rfc3339(std::int64_t unix_seconds) {
  const std::time_t time = unix_seconds;
  std::tm parts{};
  char text[32] = {};
  if (gmtime_r(&time, &parts) == nullptr) return "1970-01-01T00:00:00Z";
  const std::size_t length = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return std::string(text, length);
}

}  // namespace pagoda
