#pragma once
// Folders and lock files that only the current user may use. No defence against root or the user's own
// programs.
// Threads: any.
#include <string>

#include "base/status.h"

namespace pagoda {

// The mode bits that a folder must not grant to others.
enum class OthersMay : unsigned {
  read = 022,  // others may read, but not write
  nothing = 077,
};

// Creates the folder with mode 0700, and its missing parents. invalid_argument if it cannot be created, does
// not belong to this user, or grants others more than `others` allows.
Status make_private_folder(const std::string& path, OthersMay others);

// Opens the lock file at `path` and locks it for this process. Creates the file if it is missing; never
// follows a symbolic link. -1 with errno set on failure: EWOULDBLOCK if another process holds the lock. The
// lock is released when the descriptor is closed or the process ends; the holder may delete the file.
int lock_file(const std::string& path);

}  // namespace pagoda
