#include "loader/mapped_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "base/xxh64.h"
#include "loader/printable.h"

namespace pagoda {
namespace {

constexpr std::size_t kPage = 4096;

struct OpenFile {
  OpenFile() = default;
  OpenFile(OpenFile&& other) noexcept
      : descriptor(std::exchange(other.descriptor, -1)), size(other.size), info(other.info) {}
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() {
    if (descriptor >= 0) ::close(descriptor);
  }
  int descriptor = -1;
  std::size_t size = 0;
  struct stat info{};
};

Status file_error(const std::string& path, int error) {
  std::string message = concat("cannot read '", printable(path), "': ", std::strerror(error));
  return error == ENOENT || error == ENOTDIR ? not_found(std::move(message))
                                             : invalid_argument(std::move(message));
}

Result<OpenFile> open_regular(const std::string& path) {
  OpenFile file;
  // O_NONBLOCK: opening a pipe without a writer must fail below instead of blocking.
  file.descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.descriptor < 0) return file_error(path, errno);
  struct stat& info = file.info;
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
  PAGODA_ASSIGN_OR_RETURN(OpenFile file, open_regular(path));
  std::shared_ptr<MappedFile> mapped(new MappedFile);
  mapped->path_ = path;
  mapped->stamp_ = stamp_of(file.info);
  if (file.size > 0) {
    void* address = ::mmap(nullptr, file.size, PROT_READ, MAP_PRIVATE, file.descriptor, 0);
    if (address == MAP_FAILED) return file_error(path, errno);
    mapped->data_ = static_cast<const std::byte*>(address);
    mapped->size_ = file.size;
  }
  return mapped;
}

template <class Stat>
MappedFile::Stamp MappedFile::stamp_of(const Stat& info) {
  const auto nanoseconds = [](const timespec& time) {
    return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  };
  return {.inode = info.st_ino,
          .bytes = static_cast<std::uint64_t>(info.st_size),
          .modified = nanoseconds(info.st_mtim),
          .changed = nanoseconds(info.st_ctim)};
}

std::string MappedFile::identity(std::size_t header_bytes) const {
  return concat("bytes ", stamp_.bytes, " inode ", stamp_.inode, " modified ", stamp_.modified, " changed ",
                stamp_.changed, " header ", xxh64(bytes().first(std::min(header_bytes, size_))));
}

bool MappedFile::unchanged() const {
  constexpr std::int64_t kTick = 20'000'000;  // the file system's clock ticks at least every 10 ms
  struct stat info;
  if (::stat(path_.c_str(), &info) != 0) return false;
  const Stamp now = stamp_of(info);
  timespec time;
  ::clock_gettime(CLOCK_REALTIME, &time);
  const std::int64_t since = std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec - now.changed;
  if (since >= 0 && since < kTick) {
    const timespec wait = {.tv_sec = 0, .tv_nsec = static_cast<long>(kTick - since)};
    ::nanosleep(&wait, nullptr);
  }
  return now == stamp_;
}

bool MappedFile::has(std::span<const std::byte> bytes) const {
  return data_ != nullptr && bytes.data() >= data_ && bytes.data() + bytes.size() <= data_ + size_;
}

void MappedFile::give_back(std::span<const std::byte> bytes) const {
  if (!has(bytes)) return;
  const auto begin = (reinterpret_cast<std::uintptr_t>(bytes.data()) + kPage - 1) / kPage * kPage;
  const auto end = reinterpret_cast<std::uintptr_t>(bytes.data() + bytes.size()) / kPage * kPage;
  // Read-only and private: the file still holds the dropped pages.
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);  // NOLINT
}

void MappedFile::read_ahead(std::span<const std::byte> bytes) const {
  constexpr std::size_t kAhead = std::size_t{64} << 20, kLeast = std::size_t{8} << 20;
  if (!has(bytes)) return;
  const auto at = static_cast<std::size_t>(bytes.data() - data_);
  const std::size_t end = std::min(size_, at + std::min(bytes.size(), kAhead) + kAhead);
  const std::size_t asked = ahead_.load(std::memory_order_relaxed);
  // If the position does not continue earlier reads, starts anew.
  const std::size_t begin = (asked >= at && asked <= end ? asked : at) / kPage * kPage;
  if (end <= begin || (end - begin < kLeast && end < size_)) return;
  ::madvise(const_cast<std::byte*>(data_) + begin, end - begin, MADV_WILLNEED);
  ahead_.store(end, std::memory_order_relaxed);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

Result<std::string> read_text_file(const std::string& path, std::size_t max_bytes) {
  PAGODA_ASSIGN_OR_RETURN(OpenFile file, open_regular(path));
  if (file.size > max_bytes) {
    return corrupt_data(
        concat("'", printable(path), "' has ", file.size, " bytes; at most ", max_bytes, " are expected"));
  }
  std::string text(file.size, '\0');
  std::size_t have = 0;
  while (have < text.size()) {
    const ssize_t got = ::read(file.descriptor, text.data() + have, text.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return file_error(path, errno);
    if (got == 0) break;  // truncated since fstat
    have += static_cast<std::size_t>(got);
  }
  text.resize(have);
  return text;
}

std::optional<std::string> optional_text_file(const std::string& path, std::size_t max_bytes) {
  Result<std::string> text = read_text_file(path, max_bytes);
  return text ? std::optional(*std::move(text)) : std::nullopt;
}

void install_sigbus_handler() {
  struct sigaction action{};
  action.sa_handler = on_sigbus;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace pagoda
