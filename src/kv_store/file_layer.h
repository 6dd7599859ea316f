#pragma once
// FileLayer: the few things that the segment store does with the files of its folder, so that tests can lose,
// reorder and tear what was not synced. disk_files.h is the real one, memory_files.h the one of tests.
// Names are single components. A file's bytes and its name become durable by different calls: sync() of the
// file and sync_folder().
// Errors: not_found; resource_exhausted: the disk is full; internal: it failed otherwise.
// Threads: any; a StoredFile has one writer, and readers beside it.
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
  // How many bytes were read: less than asked for at the end of the file, or when the disk fails midway.
  virtual Result<std::size_t> read(std::uint64_t offset, std::span<std::byte> out) const = 0;
  virtual Status write(std::uint64_t offset, std::span<const std::byte> bytes) = 0;
  // Overwrites bytes inside the file by zeros; the disk may take their room back.
  virtual Status zero(std::uint64_t offset, std::uint64_t bytes) = 0;
  virtual Status truncate(std::uint64_t bytes) = 0;
  virtual Status sync() = 0;
};

class FileLayer {
 public:
  virtual ~FileLayer() = default;
  virtual Result<std::vector<StoredFileInfo>> list() const = 0;  // regular files of ours alone
  enum class Access { read, write };
  virtual Result<std::unique_ptr<StoredFile>> open(const std::string& name, Access access) const = 0;
  virtual Result<std::unique_ptr<StoredFile>> create(const std::string& name) = 0;  // must not exist
  virtual Status remove(const std::string& name) = 0;
  virtual Status sync_folder() = 0;
};

}  // namespace pagoda
