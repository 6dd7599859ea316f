#pragma once
// A variable of the process' environment; empty: not set.
#include <cstdlib>
#include <string>

namespace pagoda {

inline std::string environment_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

}  // namespace pagoda
