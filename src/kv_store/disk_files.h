#pragma once
// DiskFiles: a FileLayer over a folder on disk. The folder has mode 0700 and its files 0600, all owned by
// this user. Symbolic links are never followed, and files with another owner or wider permissions are not
// listed. Reads and writes at multiples of 4096 bypass the page cache if the file system supports it.
// Threads: any. Works inside the sandbox, which must allow writing to the folder.
#include <atomic>
#include <memory>
#include <string>

#include "kv_store/file_layer.h"

namespace pagoda {

class DiskFiles final : public FileLayer {
 public:
  enum class Lock {
    taken,  // exclusive: no other process may open the folder with this lock
    none,   // for reading the contents only
  };
  // Lock::taken creates the folder if it is missing. not_found: the folder does not exist. invalid_argument:
  // the path is a link, or not a folder of this user with mode 0700. unavailable: another process has the
  // lock.
  static Result<std::unique_ptr<DiskFiles>> open(const std::string& path, Lock lock);
  ~DiskFiles() override;
  DiskFiles(const DiskFiles&) = delete;
  DiskFiles& operator=(const DiskFiles&) = delete;

  Result<std::vector<StoredFileInfo>> list() const override;
  Result<std::unique_ptr<StoredFile>> open(const std::string& name, Access access) const override;
  Result<std::unique_ptr<StoredFile>> create(const std::string& name) override;
  Status remove(const std::string& name) override;
  Status sync_folder() override;

 private:
  DiskFiles() = default;
  Result<std::unique_ptr<StoredFile>> open_file(const std::string& name, int flags) const;

  std::string path_;
  int folder_ = -1, lock_ = -1;
  mutable std::atomic<bool> direct_ = true;  // false once the file system has rejected O_DIRECT
};

}  // namespace pagoda
