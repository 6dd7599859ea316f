#pragma once
// Converts a command's result into the exit code: 0, or one line on standard error and 2.
#include <string>
#include <string_view>

#include "base/status.h"

namespace pagoda {

inline constexpr int kExitUsage = 2;

// Prints "pagoda: MESSAGE" as a single line, even if a path or a library put line breaks into the message, or
// logs it if the log is JSON. Returns kExitUsage.
int fail(std::string_view message);

int exit_code(const Status& status);

// Flushes standard output. Returns 0, or reports the error through fail().
int flush_output();

// "cannot write PATH: No space left on device". Uses errno, so call it immediately after the failure.
std::string file_failure(std::string_view verb, std::string_view path);

}  // namespace pagoda
