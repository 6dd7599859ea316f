#pragma once
// WeightCache: the folder of packed files (packed_file.h), one per model, layout and rank. Finds files by
// key, lets one process at a time make a file, and keeps the folder below a size limit.
//    <32 hex digits of the key>.packed   complete, never written again; its modification time is its last use
//    ….tmp                               in progress; renamed when complete and on the disk
//    ….lock                              held by the process that makes the file
// An incomplete or foreign file is made anew. A removed file stays usable for processes that have it mapped.
// A .tmp file whose lock is free was left by a killed process; the next process that makes the file removes
// it.
// Threads: any; processes, too. Owner: cli/ names the folder; the environment is not read here.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/thread_pool.h"
#include "loader/packed_file.h"

namespace pagoda {

// One file of the folder, for display.
struct CachedFile {
  std::string path;
  std::string source;  // path of the model; empty if the file cannot be read
  std::int64_t bytes = 0;
  std::int64_t last_use = 0;  // seconds since 1970
};

class WeightCache {
 public:
  // max_bytes: limit for all files together; the file in use may be larger.
  WeightCache(std::string folder, std::int64_t max_bytes)
      : folder_(std::move(folder)), max_bytes_(max_bytes) {}

  // Opens the file for `key`. not_found: absent (or removed), and may be made.
  Result<std::shared_ptr<const PackedFile>> open(std::string_view key, ThreadPool* pool,
                                                 const PackedFile::Progress& progress = {}) const;

  // True if there is a file for `key`; does not check its pieces.
  bool has(std::string_view key) const;

  // The exclusive right to make a file, for the lifetime of this object.
  class Making {
   public:
    Making(Making&& other) noexcept;
    Making& operator=(Making&&) = delete;
    ~Making();
    PackedFileWriter& writer() { return *writer_; }

   private:
    friend class WeightCache;
    Making() = default;
    int lock_ = -1;
    std::string path_, lock_path_;
    std::optional<PackedFileWriter> writer_;
  };
  // Creates the folder and frees space for `expected_bytes` on the disk and under max_bytes, least recently
  // used files first. unavailable: another process is making this file. resource_exhausted: not enough space.
  Result<Making> begin(PackedFileHead head, std::int64_t expected_bytes) const;
  // When this returns, the file is complete, on the disk and under its name.
  Status commit(Making making) const;
  void remove(std::string_view key) const;

  std::vector<CachedFile> list() const;  // latest use first
  // Removes all files, including unfinished ones that no process is making; returns their size in bytes.
  std::int64_t clear() const;
  const std::string& folder() const { return folder_; }

 private:
  std::string path(std::string_view key, std::string_view suffix) const;
  Status make_space(std::int64_t bytes, const std::string& keep) const;
  // Removes unfinished files that no process is making; returns their size in bytes.
  std::int64_t remove_unfinished() const;

  std::string folder_;
  std::int64_t max_bytes_;
};

}  // namespace pagoda
