#pragma once
// How a command's end becomes the program's: 0, or one line on standard error and 2.
#include <string_view>

#include "base/status.h"

namespace pagoda {

inline constexpr int kExitUsage = 2;

// Prints "pagoda: MESSAGE" on one line, whatever a path or a library put into it; kExitUsage.
int fail(std::string_view message);

int exit_code(const Status& status);

}  // namespace pagoda
