#pragma once
// Files that a command writes its results to at its end: "-" is stdout, "" no file. Errors: invalid_argument,
// a path that cannot be written.
#include <string>
#include <string_view>

#include "base/status.h"

namespace pagoda {

// Tells before the work, which may take hours, whether write_output() can write to `path`; its content stays.
Status check_output(const std::string& path);

// Replaces the file's content.
Status write_output(const std::string& path, std::string_view text);

}  // namespace pagoda
