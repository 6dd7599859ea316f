#include "kv_store/disk_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/private_folder.h"
#include "base/strings.h"

namespace pagoda {
namespace {

constexpr std::size_t kDirectAlignment = 4096;
constexpr std::size_t kMaxFiles = 1 << 16;  // limit on the files listed in a folder

Status failed(std::string_view verb, const std::string& name) {
  const int error = errno;
  std::string message = concat("cannot ", verb, " '", name, "': ", std::generic_category().message(error));
  if (error == ENOENT) return not_found(std::move(message));
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) return resource_exhausted(std::move(message));
  return internal_error(std::move(message));
}

bool is_ours(const struct stat& info) {
  return S_ISREG(info.st_mode) && info.st_uid == ::geteuid() && (info.st_mode & 077) == 0;
}

class DiskFile final : public StoredFile {
 public:
  DiskFile(std::string name, int file, int direct) : name_(std::move(name)), file_(file), direct_(direct) {}
  ~DiskFile() override {
    ::close(file_);
    if (direct_ >= 0) ::close(direct_);
  }
  DiskFile(const DiskFile&) = delete;
  DiskFile& operator=(const DiskFile&) = delete;

  Result<std::size_t> read(std::uint64_t offset, std::span<std::byte> out) const override {
    std::size_t done = 0;
    while (done < out.size()) {
      std::span<std::byte> rest = out.subspan(done);
      const bool direct = takes_direct(rest.data(), offset + done) && rest.size() >= kDirectAlignment;
      if (direct) rest = rest.first(rest.size() / kDirectAlignment * kDirectAlignment);
      const ssize_t got =
          ::pread(direct ? direct_ : file_, rest.data(), rest.size(), static_cast<off_t>(offset + done));
      if (got < 0 && (errno == EINTR || refuses_direct(direct))) continue;
      if (got < 0) return failed("read", name_);
      done += static_cast<std::size_t>(got);
      if (got == 0) break;
    }
    return done;
  }

  Status write(std::uint64_t offset, std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const bool direct = takes_direct(bytes.data(), offset) && bytes.size() % kDirectAlignment == 0;
      const ssize_t wrote =
          ::pwrite(direct ? direct_ : file_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (wrote < 0 && (errno == EINTR || refuses_direct(direct))) continue;
      if (wrote == 0) errno = ENOSPC;
      if (wrote <= 0) return failed("write", name_);
      offset += static_cast<std::uint64_t>(wrote);
      bytes = bytes.subspan(static_cast<std::size_t>(wrote));
    }
    return ok_status();
  }

  Status zero(std::uint64_t offset, std::uint64_t bytes) override {
    if (::fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                    static_cast<off_t>(bytes)) == 0)
      return ok_status();
    const std::vector<std::byte> zeros(std::size_t{1} << 20);
    while (bytes > 0) {
      const std::size_t count = std::min<std::uint64_t>(bytes, zeros.size());
      PAGODA_RETURN_IF_ERROR(write(offset, std::span(zeros).first(count)));
      offset += count;
      bytes -= count;
    }
    return ok_status();
  }

  Status truncate(std::uint64_t bytes) override {
    return ::ftruncate(file_, static_cast<off_t>(bytes)) == 0 ? ok_status() : failed("truncate", name_);
  }

  Status sync() override {
    if (::fdatasync(file_) != 0) return failed("sync", name_);
    // Drop the bytes that went through the page cache; they are not read from there again.
    if (direct_ < 0) ::posix_fadvise(file_, 0, 0, POSIX_FADV_DONTNEED);
    return ok_status();
  }

 private:
  bool takes_direct(const void* data, std::uint64_t offset) const {
    return direct_ >= 0 && !refused_ && offset % kDirectAlignment == 0 &&
           reinterpret_cast<std::uintptr_t>(data) % kDirectAlignment == 0;
  }
  // Some disks require a larger alignment than this. Then all I/O uses the page cache.
  bool refuses_direct(bool direct) const {
    if (!direct || errno != EINVAL) return false;
    refused_ = true;
    return true;
  }

  const std::string name_;
  const int file_, direct_;
  mutable std::atomic<bool> refused_ = false;
};

}  // namespace

Result<std::unique_ptr<DiskFiles>> DiskFiles::open(const std::string& path, Lock lock) {
  if (lock == Lock::taken) PAGODA_RETURN_IF_ERROR(make_private_folder(path, OthersMay::nothing));
  std::unique_ptr<DiskFiles> files(new DiskFiles);
  files->path_ = path;
  files->folder_ = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (files->folder_ < 0) {
    std::error_code error;
    if (errno == ELOOP || errno == ENOTDIR)
      return invalid_argument(std::filesystem::is_symlink(std::filesystem::symlink_status(path, error))
                                  ? concat("'", path, "' is a link; name the folder itself")
                                  : concat("'", path, "' is not a folder"));
    return failed("open", path);
  }
  struct stat info{};
  if (::fstat(files->folder_, &info) != 0 || info.st_uid != ::geteuid() || (info.st_mode & 077) != 0)
    return invalid_argument(
        concat("'", path, "' is open to other users: it must belong to this user and have mode 0700"));
  if (lock == Lock::none) return files;
  files->lock_ = lock_file(path + "/lock");
  if (files->lock_ < 0 && errno == EWOULDBLOCK)
    return unavailable(concat("another process uses '", path, "'"));
  if (files->lock_ < 0) return failed("lock", path + "/lock");
  return files;
}

DiskFiles::~DiskFiles() {
  if (folder_ >= 0) ::close(folder_);
  if (lock_ >= 0) ::close(lock_);
}

Result<std::vector<StoredFileInfo>> DiskFiles::list() const {
  // A separate descriptor, so that no other thread moves its position in the folder.
  const int copy = ::openat(folder_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const entries = copy < 0 ? nullptr : ::fdopendir(copy);
  if (entries == nullptr) {
    const Status status = failed("list", path_);
    if (copy >= 0) ::close(copy);
    return status;
  }
  std::vector<StoredFileInfo> out;
  while (const dirent* entry = ::readdir(entries)) {
    struct stat info{};
    if (::fstatat(folder_, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 || !is_ours(info)) continue;
    out.push_back({.name = entry->d_name, .bytes = info.st_size});
    if (out.size() == kMaxFiles) break;
  }
  ::closedir(entries);
  return out;
}

Result<std::unique_ptr<StoredFile>> DiskFiles::open_file(const std::string& name, int flags) const {
  const int file = ::openat(folder_, name.c_str(), flags | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) return failed("open", name);
  struct stat info{};
  if (::fstat(file, &info) != 0 || !is_ours(info)) {
    ::close(file);
    return invalid_argument(
        concat("'", name, "' is open to other users: it must belong to this user and have mode 0600"));
  }
  int direct = -1;
  if (direct_) {
    direct = ::openat(folder_, name.c_str(), (flags & O_ACCMODE) | O_NOFOLLOW | O_CLOEXEC | O_DIRECT);
    struct stat same{};
    if (direct < 0 && errno == EINVAL) direct_ = false;
    // Another file took this name in the meantime.
    if (direct >= 0 && (::fstat(direct, &same) != 0 || same.st_ino != info.st_ino)) {
      ::close(direct);
      direct = -1;
    }
  }
  return std::unique_ptr<StoredFile>(std::make_unique<DiskFile>(name, file, direct));
}

Result<std::unique_ptr<StoredFile>> DiskFiles::open(const std::string& name, Access access) const {
  return open_file(name, access == Access::write ? O_RDWR : O_RDONLY);
}

Result<std::unique_ptr<StoredFile>> DiskFiles::create(const std::string& name) {
  return open_file(name, O_RDWR | O_CREAT | O_EXCL);
}

Status DiskFiles::remove(const std::string& name) {
  return ::unlinkat(folder_, name.c_str(), 0) == 0 ? ok_status() : failed("remove", name);
}

Status DiskFiles::sync_folder() { return ::fsync(folder_) == 0 ? ok_status() : failed("sync", path_); }

}  // namespace pagoda
