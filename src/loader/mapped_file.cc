#include "loader/mapped_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/strings.h"
#include "loader/printable.h"

namespace pagoda {
namespace {

struct OpenFile {
  OpenFile() = default;
  OpenFile(OpenFile&& other) noexcept : descriptor(std::exchange(other.descriptor, -1)), size(other.size) {}
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() {
    if (descriptor >= 0) ::close(descriptor);
  }
  int descriptor = -1;
  std::size_t size = 0;
};

Status file_error(const std::string& path, int error) {
  std::string message = concat("cannot read '", printable(path), "': ", std::strerror(error));
  return error == ENOENT || error == ENOTDIR ? not_found(std::move(message))
                                             : invalid_argument(std::move(message));
}

Result<OpenFile> open_regular(const std::string& path) {
  OpenFile file;
  // O_NONBLOCK: opening a pipe nobody writes to must fail below, not wait for ever.
  file.descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.descriptor < 0) return file_error(path, errno);
  struct stat info;
  if (::fstat(file.descriptor, &info) != 0) return file_error(path, errno);
  if (S_ISDIR(info.st_mode)) return file_error(path, EISDIR);
  if (!S_ISREG(info.st_mode)) {
    return invalid_argument(concat("cannot read '", printable(path), "': not a regular file"));
  }
  file.size = static_cast<std::size_t>(info.st_size);
  return file;
}

void on_sigbus(int) {
  // Only async-signal-safe calls here.
  constexpr char kMessage[] = "pagoda: a model file was cut short or became unreadable while in use\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kMessage, sizeof kMessage - 1);
  ::_exit(2);
}

}  // namespace

Result<std::shared_ptr<MappedFile>> MappedFile::open(const std::string& path) {
  Result<OpenFile> file = open_regular(path);
  if (!file) return file.error();
  std::shared_ptr<MappedFile> mapped(new MappedFile);
  mapped->path_ = path;
  if (file->size > 0) {
    void* address = ::mmap(nullptr, file->size, PROT_READ, MAP_PRIVATE, file->descriptor, 0);
    if (address == MAP_FAILED) return file_error(path, errno);
    mapped->data_ = static_cast<const std::byte*>(address);
    mapped->size_ = file->size;
  }
  return mapped;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

Result<std::string> read_text_file(const std::string& path, std::size_t max_bytes) {
  Result<OpenFile> file = open_regular(path);
  if (!file) return file.error();
  if (file->size > max_bytes) {
    return corrupt_data(
        concat("'", printable(path), "' has ", file->size, " bytes; at most ", max_bytes, " are expected"));
  }
  std::string text(file->size, '\0');
  std::size_t have = 0;
  while (have < text.size()) {
    const ssize_t got = ::read(file->descriptor, text.data() + have, text.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return file_error(path, errno);
    if (got == 0) break;  // cut short since fstat
    have += static_cast<std::size_t>(got);
  }
  text.resize(have);
  return text;
}

void install_sigbus_handler() {
  struct sigaction action{};
  action.sa_handler = on_sigbus;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace pagoda
