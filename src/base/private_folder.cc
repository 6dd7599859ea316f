#include "base/private_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/strings.h"

namespace pagoda {
namespace {

bool same_file(int file, const std::string& path) {
  struct stat held, named;
  return ::fstat(file, &held) == 0 && ::stat(path.c_str(), &named) == 0 && held.st_ino == named.st_ino &&
         held.st_dev == named.st_dev;
}

}  // namespace

Status make_private_folder(const std::string& path, OthersMay others) {
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return invalid_argument(
        concat("cannot create the folder '", path, "': ", std::generic_category().message(errno)));
  struct stat info;
  if (::stat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != ::geteuid() ||
      (info.st_mode & static_cast<unsigned>(others)) != 0)
    return invalid_argument(concat("'", path, "' is not a folder of this user that only this user may ",
                                   others == OthersMay::nothing ? "use (mode 0700)" : "write"));
  return ok_status();
}

int lock_file(const std::string& path) {
  for (;;) {
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0) return -1;
    const int result = ::flock(file, LOCK_EX | LOCK_NB), error = errno;
    if (result == 0 && same_file(file, path)) return file;
    ::close(file);
    errno = error;
    if (result != 0 && error != EINTR) return -1;
    // Otherwise the previous holder deleted the file after we opened it, and another process may hold its
    // successor.
  }
}

}  // namespace pagoda
