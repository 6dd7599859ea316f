#pragma once
// Files that a command writes its results to when it ends: "-" is stdout, "" means no file. Errors:
// invalid_argument if the path cannot be written.
#include <string>
#include <string_view>

#include "base/status.h"

namespace pagoda {

// Checks in advance, since the work may take hours, that write_output() can write to `path`. Keeps existing
// contents.
Status check_output(const std::string& path);

// Replaces the contents of the file.
Status write_output(const std::string& path, std::string_view text);

}  // namespace pagoda
