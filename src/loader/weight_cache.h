#pragma once
// WeightCache: the folder of packed files (packed_file.h), one for each model, layout and rank that was
// started. Finds them by key, lets one process at a time make one, and keeps the folder under a size.
//     <32 hex digits of the key>.packed   whole, never written again; its time of change is its last use
//     ….tmp                               being made; renamed when it is whole and on the disk
//     ….lock                              held by its maker
// A file that is not whole, or not ours, is made anew. A removed file stays with those that have it mapped.
// A .tmp file whose lock nobody holds was left by a process that was killed; whoever makes a file removes it.
// Threads: any; processes too. Owner: cli/ names the folder; the environment is not read here.
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

// One file of the folder, for people.
struct CachedFile {
  std::string path;
  std::string source;  // path of the model; empty where the file cannot be read
  std::int64_t bytes = 0;
  std::int64_t last_use = 0;  // seconds since 1970
};

class WeightCache {
 public:
  // max_bytes: of all files together; the file in use may be larger.
  WeightCache(std::string folder, std::int64_t max_bytes)
      : folder_(std::move(folder)), max_bytes_(max_bytes) {}

  // The file for `key`. not_found: there is none (any more), and it can be made.
  Result<std::shared_ptr<const PackedFile>> open(std::string_view key, ThreadPool* pool,
                                                 const PackedFile::Progress& progress = {}) const;

  // Whether there is a file for `key`, without a look at its pieces.
  bool has(std::string_view key) const;

  // The right to make a file, until this goes: nobody else may make the same.
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
  // Makes the folder, and room for `expected_bytes`: on the disk and under max_bytes, the longest unused
  // going first. unavailable: another process is making this file. resource_exhausted: there is no room.
  Result<Making> begin(PackedFileHead head, std::int64_t expected_bytes) const;
  // The file is whole and on the disk, under its name, when this returns.
  Status commit(Making making) const;
  void remove(std::string_view key) const;

  std::vector<CachedFile> list() const;  // latest use first
  // Removes all files, also those in the making unless somebody is at it; how many bytes they were.
  std::int64_t clear() const;
  const std::string& folder() const { return folder_; }

 private:
  std::string path(std::string_view key, std::string_view suffix) const;
  Status make_space(std::int64_t bytes, const std::string& keep) const;
  // Removes files in the making that nobody is at; how many bytes they were.
  std::int64_t remove_unfinished() const;

  std::string folder_;
  std::int64_t max_bytes_;
};

}  // namespace pagoda
