#include "loader/new_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/strings.h"
#include "loader/printable.h"

namespace pagoda {

Result<std::unique_ptr<NewFile>> NewFile::create(const std::string& path) {
  std::unique_ptr<NewFile> file(new NewFile(path));
  PAGODA_RETURN_IF_ERROR(file->open());
  return file;
}

Status NewFile::failed() const {
  return invalid_argument(concat("cannot write '", printable(path_), "': ", std::strerror(errno)));
}

Status NewFile::open() {
  struct stat present = {};
  if (::lstat(path_.c_str(), &present) == 0) {
    errno = EEXIST;
    return failed();
  }
  std::string folder = std::filesystem::path(path_).parent_path().string();
  if (folder.empty()) folder = ".";
  file_ = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  if (file_ >= 0) return ok_status();
  file_ = ::open(path_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
  named_ = file_ >= 0;
  return named_ ? ok_status() : failed();
}

NewFile::~NewFile() {
  if (file_ >= 0) ::close(file_);
  if (named_ && !finished_) ::unlink(path_.c_str());
}

Status NewFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failed();
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return ok_status();
}

Status NewFile::finish() {
  if (!named_) {
    const std::string self = concat("/proc/self/fd/", file_);
    if (::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, path_.c_str(), AT_SYMLINK_FOLLOW) != 0) return failed();
  }
  finished_ = true;
  const int file = std::exchange(file_, -1);
  return ::close(file) == 0 ? ok_status() : failed();
}

}  // namespace pagoda
