#pragma once
// DiskFiles: a folder on disk as a FileLayer. The folder has mode 0700 and its files 0600, both of this user;
// a link is never followed, and a file of another owner or with more rights is not listed. Reads and writes
// at multiples of 4096 go past the page cache where the file system can do that.
// Threads: any. Works inside the sandbox, which must allow writing to the folder.
#include <atomic>
#include <memory>
#include <string>

#include "kv_store/file_layer.h"

namespace pagoda {

class DiskFiles final : public FileLayer {
 public:
  enum class Lock {
    taken,  // no other process may have the folder open so
    none,   // to look at what there is
  };
  // Lock::taken makes the folder if it is missing. not_found: there is none. invalid_argument: not a folder
  // of this user with mode 0700, or a link. unavailable: another process has the lock.
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
  mutable std::atomic<bool> direct_ = true;  // the file system takes O_DIRECT, as far as is known
};

}  // namespace pagoda
