#pragma once
// Errors for flags whose value is a JSON object.
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/strings.h"

namespace pagoda {

inline Status refuse_member(std::string_view member, std::string_view problem) {
  return invalid_argument(concat("'", member, "' ", problem)).with_param(std::string(member));
}

}  // namespace pagoda
