#pragma once
// The file of --api-key-file: YAML with a list `keys:` of who may ask. Read as a whole or not at all: a file
// with one bad line gives no keys. Trusts no byte of it.
// Errors: invalid_argument with file and line, never with a key; not_found: it cannot be read. Threads: any.
#include <string>
#include <vector>

#include "base/status.h"
#include "server/keys/key_entry.h"

namespace pagoda {

// Letters, digits and "._-", 1 to 64 of them: fit for logs, labels and paths. Not the names of who has no
// key.
bool is_key_name(std::string_view name);
inline constexpr std::string_view kAnonymous = "anonymous";
inline constexpr std::string_view kAdminSocket = "admin-socket";

// `name` stands in messages.
Result<std::vector<KeyEntry>> parse_key_file(const std::string& text, const std::string& name);
Result<std::vector<KeyEntry>> read_key_file(const std::string& path);

// The text of a key file with one entry more, all else as it was. invalid_argument: the file is not one, has
// that name, or is laid out so that nothing can be added to its end.
Result<std::string> with_new_key(const std::string& text, const std::string& name, const KeyEntry& entry);

}  // namespace pagoda
