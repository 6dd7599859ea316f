#pragma once
// The file of --api-key-file: YAML with a list `keys:`. All or nothing: a file with one bad line yields no
// keys. The content is not trusted.
// Errors: invalid_argument with file and line, never with a key; not_found: the file cannot be read. Threads:
// any.
#include <string>
#include <vector>

#include "base/status.h"
#include "server/keys/key_entry.h"

namespace pagoda {

// True for 1 to 64 letters, digits and "._-", which are safe in logs, labels and paths. The reserved names
// below are not allowed.
bool is_key_name(std::string_view name);
inline constexpr std::string_view kAnonymous = "anonymous";
inline constexpr std::string_view kAdminSocket = "admin-socket";

// `name`: the file's name in error messages.
Result<std::vector<KeyEntry>> parse_key_file(const std::string& text, const std::string& name);
Result<std::vector<KeyEntry>> read_key_file(const std::string& path);

// The text of a key file with `entry` appended and the rest unchanged. invalid_argument: the text is not a
// valid key file, has that name already, or has a layout that does not allow appending.
Result<std::string> with_new_key(const std::string& text, const std::string& name, const KeyEntry& entry);

}  // namespace pagoda
