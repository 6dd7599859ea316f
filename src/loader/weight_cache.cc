#include "loader/weight_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/assign_or_return.h"
#include "base/private_folder.h"
#include "base/strings.h"
#include "base/xxh64.h"
#include "loader/printable.h"

namespace pagoda {
namespace {

namespace fs = std::filesystem;

// True if the name is one of the cache's: 32 hex digits and this suffix.
bool is_ours(const std::string& name, std::string_view suffix) {
  return name.size() == 32 + suffix.size() && name.ends_with(suffix) &&
         name.find_first_not_of("0123456789abcdef") == 32;
}

void unlock(int file, const std::string& path) {
  ::unlink(path.c_str());
  ::close(file);
}

template <class Visit>
void each_file(const std::string& folder, const Visit& visit) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    visit(at->path().filename().string());
}

}  // namespace

std::string WeightCache::path(std::string_view key, std::string_view suffix) const {
  char name[33];
  std::snprintf(name, sizeof name, "%016" PRIx64 "%016" PRIx64, xxh64(key), xxh64(key, 1));
  return concat(folder_, "/", name, suffix);
}

Result<std::shared_ptr<const PackedFile>> WeightCache::open(std::string_view key, ThreadPool* pool,
                                                            const PackedFile::Progress& progress) const {
  const std::string file = path(key, ".packed");
  auto opened = PackedFile::open(file, key, pool, progress);
  if (opened) {
    ::utimensat(AT_FDCWD, file.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);  // marks the file as just used
    return opened;
  }
  if (opened.error().code() != StatusCode::not_found) ::unlink(file.c_str());
  return not_found(opened.error().message());
}

bool WeightCache::has(std::string_view key) const {
  const auto head = PackedFile::read_head(path(key, ".packed"));
  return head && head->key == key;
}

Status WeightCache::make_space(std::int64_t bytes, const std::string& keep) const {
  if (bytes > max_bytes_)
    return resource_exhausted(
        concat("packed weights of ", bytes, " bytes are over the cache's ", max_bytes_));
  std::vector<CachedFile> files = list();
  std::erase_if(files, [&](const CachedFile& file) { return file.path == keep; });
  std::int64_t total = 0;
  for (const CachedFile& file : files) total += file.bytes;
  const auto free_bytes = [&] {
    struct statvfs info;
    if (::statvfs(folder_.c_str(), &info) != 0) return std::int64_t{0};
    return static_cast<std::int64_t>(info.f_bavail) * static_cast<std::int64_t>(info.f_frsize);
  };
  while (!files.empty() && (total + bytes > max_bytes_ || free_bytes() < bytes)) {
    ::unlink(files.back().path.c_str());
    total -= files.back().bytes;
    files.pop_back();
  }
  if (free_bytes() < bytes)
    return resource_exhausted(
        concat("the disk of '", printable(folder_), "' has no space for ", bytes, " bytes"));
  return ok_status();
}

WeightCache::Making::Making(Making&& other) noexcept
    : lock_(std::exchange(other.lock_, -1)),
      path_(std::move(other.path_)),
      lock_path_(std::move(other.lock_path_)),
      writer_(std::move(other.writer_)) {
  other.writer_.reset();
}

WeightCache::Making::~Making() {
  writer_.reset();  // removes an unfinished file before other processes may begin
  if (lock_ >= 0) unlock(lock_, lock_path_);
}

Result<WeightCache::Making> WeightCache::begin(PackedFileHead head, std::int64_t expected_bytes) const {
  PAGODA_RETURN_IF_ERROR(make_private_folder(folder_, OthersMay::read));
  Making making;
  making.path_ = path(head.key, ".packed");
  making.lock_path_ = path(head.key, ".lock");
  making.lock_ = lock_file(making.lock_path_);
  if (making.lock_ < 0) {
    const int error = errno;
    std::string message =
        concat("cannot lock '", printable(making.lock_path_), "': ", std::generic_category().message(error));
    return error == EWOULDBLOCK ? unavailable(std::move(message)) : internal_error(std::move(message));
  }
  remove_unfinished();
  const std::string temporary = path(head.key, ".tmp");
  ::unlink(temporary.c_str());  // left by a killed process
  PAGODA_RETURN_IF_ERROR(make_space(expected_bytes, making.path_));
  PAGODA_ASSIGN_OR_RETURN(auto writer, PackedFileWriter::create(temporary, std::move(head)));
  making.writer_.emplace(std::move(writer));
  return making;
}

Status WeightCache::commit(Making making) const {
  PAGODA_RETURN_IF_ERROR(making.writer_->finish());
  const std::int64_t bytes = making.writer_->bytes();
  const std::string temporary = making.path_.substr(0, making.path_.size() - 7) + ".tmp";
  if (::rename(temporary.c_str(), making.path_.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary.c_str());
    return internal_error(concat("cannot rename '", printable(temporary), "': ", std::strerror(error)));
  }
  if (const int folder = ::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); folder >= 0) {
    ::fsync(folder);
    ::close(folder);
  }
  // The file may differ from its expected size.
  (void)make_space(std::min(bytes, max_bytes_), making.path_);
  return ok_status();
}

void WeightCache::remove(std::string_view key) const { ::unlink(path(key, ".packed").c_str()); }

std::vector<CachedFile> WeightCache::list() const {
  std::vector<CachedFile> files;
  each_file(folder_, [&](const std::string& name) {
    if (!is_ours(name, ".packed")) return;
    CachedFile file;
    file.path = concat(folder_, "/", name);
    struct stat info;
    if (::lstat(file.path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return;
    file.bytes = info.st_size;
    file.last_use = info.st_mtim.tv_sec;
    if (auto head = PackedFile::read_head(file.path)) file.source = std::move(head->source);
    files.push_back(std::move(file));
  });
  std::ranges::sort(files, [](const CachedFile& a, const CachedFile& b) {
    return a.last_use != b.last_use ? a.last_use > b.last_use : a.path < b.path;
  });
  return files;
}

std::int64_t WeightCache::remove_unfinished() const {
  std::vector<std::string> stems;
  each_file(folder_, [&](const std::string& name) {
    if (is_ours(name, ".lock") || is_ours(name, ".tmp")) stems.push_back(name.substr(0, 32));
  });
  std::int64_t bytes = 0;
  for (const std::string& stem : stems) {
    const std::string path = concat(folder_, "/", stem, ".lock");
    const int held = lock_file(path);
    if (held < 0) continue;
    std::error_code error;
    const fs::path temporary = concat(folder_, "/", stem, ".tmp");
    if (const auto size = fs::file_size(temporary, error); !error) bytes += static_cast<std::int64_t>(size);
    fs::remove(temporary, error);
    unlock(held, path);
  }
  return bytes;
}

std::int64_t WeightCache::clear() const {
  std::int64_t bytes = remove_unfinished();
  for (const CachedFile& file : list())
    if (::unlink(file.path.c_str()) == 0) bytes += file.bytes;
  return bytes;
}

}  // namespace pagoda
