#pragma once
// How a command's end becomes the program's: 0, or one line on standard error and 2.
#include <string>
#include <string_view>

#include "base/status.h"

namespace pagoda {

inline constexpr int kExitUsage = 2;

// Prints "pagoda: MESSAGE" on one line, whatever a path or a library put into it, or logs it where the log is
// JSON; kExitUsage.
int fail(std::string_view message);

int exit_code(const Status& status);

// Writes out what standard output still holds: 0, or an error as fail() has it.
int flush_output();

// "cannot write PATH: No space left on device": the reason is errno's, so it is called right after the
// failure.
std::string file_failure(std::string_view verb, std::string_view path);

}  // namespace pagoda
