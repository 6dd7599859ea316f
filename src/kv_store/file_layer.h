#pragma once
// FileLayer: the file operations that the segment store needs in its folder. Tests substitute an
// implementation that loses, reorders and tears unsynced data. disk_files.h is the real implementation,
// memory_files.h the one for tests. File names have a single path component. A file's bytes and its name
// become durable separately: through sync() of the file and through sync_folder().
// Errors: not_found; resource_exhausted: the disk is full; internal: any other failure.
// Threads: any; a StoredFile supports one writer with concurrent readers.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace pagoda {

struct StoredFileInfo {
  std::string name;
  std::int64_t bytes = 0;
};

class StoredFile {
 public:
  virtual ~StoredFile() = default;
  // Returns the number of bytes read, which is smaller than out.size() at the end of the file or if the disk
  // fails midway.
  virtual Result<std::size_t> read(std::uint64_t offset, std::span<std::byte> out) const = 0;
  virtual Status write(std::uint64_t offset, std::span<const std::byte> bytes) = 0;
  // Overwrites a range inside the file with zeros. The file system may free the range.
  virtual Status zero(std::uint64_t offset, std::uint64_t bytes) = 0;
  virtual Status truncate(std::uint64_t bytes) = 0;
  virtual Status sync() = 0;
};

class FileLayer {
 public:
  virtual ~FileLayer() = default;
  virtual Result<std::vector<StoredFileInfo>> list() const = 0;  // only regular files of this user
  enum class Access { read, write };
  virtual Result<std::unique_ptr<StoredFile>> open(const std::string& name, Access access) const = 0;
  virtual Result<std::unique_ptr<StoredFile>> create(const std::string& name) = 0;  // must not exist
  virtual Status remove(const std::string& name) = 0;
  virtual Status sync_folder() = 0;
};

}  // namespace pagoda
