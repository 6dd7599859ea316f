#pragma once
// Folders and lock files that only this user may use. Not a defence against root or the user's own programs.
// Threads: any.
#include <string>

#include "base/status.h"

namespace pagoda {

// Mode bits of a folder that others must not have.
enum class OthersMay : unsigned {
  read = 022,  // they may look, and not write
  nothing = 077,
};

// Makes the folder with mode 0700, and those above it, where they are missing. invalid_argument: it cannot be
// made, is not a folder of this user, or others may do more.
Status make_private_folder(const std::string& path, OthersMay others);

// Opens the lock file at `path`, which is made if it is missing and never a link, and locks it for this
// process. -1 with errno: EWOULDBLOCK if another process has it. Closing the descriptor unlocks, and so does
// the end of the process; its holder may remove the file.
int lock_file(const std::string& path);

}  // namespace pagoda
