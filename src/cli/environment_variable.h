#pragma once
// The value of an environment variable; empty if it is not set.
#include <cstdlib>
#include <string>

namespace pagoda {

inline std::string environment_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

}  // namespace pagoda
