#pragma once
// PackedFile: named pieces of bytes in one file that is made once and then only mapped. weight_cache.h knows
// where such files lie, models/weights/weight_store.h what the pieces mean.
//     0       magic, size of the file, the index's place and checksum, checksum of all this
//     4096    the pieces, each at a multiple of 4096
//     index   key, source, and of each piece its name, description, place, size and checksum
// Invariants: the header is written last, so an unfinished file has none; a file that opens is whole, and
// every checksum is right. Trusts no byte; refuses files of others. Threads: any may read.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/thread_pool.h"

namespace pagoda {

class MappedFile;

struct PackedPiece {
  std::string description;
  std::span<const std::byte> bytes;
};

// A file's description of itself.
struct PackedFileHead {
  std::string key;     // names its source and the layout it is for
  std::string source;  // path of the model, for people
};

class PackedFile {
 public:
  using Progress = std::function<void(std::int64_t done, std::int64_t total)>;  // in MiB

  // not_found: no such file. corrupt_data: not whole, or not made for `key`. invalid_argument: foreign.
  // Reads all of it once, on `pool` if there is one, after which it is resident.
  static Result<std::shared_ptr<const PackedFile>> open(const std::string& path, std::string_view key,
                                                        ThreadPool* pool, const Progress& progress = {});
  // The same on bytes in memory, which must outlive the result: for fuzzing.
  static Result<std::shared_ptr<const PackedFile>> parse(std::span<const std::byte> bytes,
                                                         std::string_view key, ThreadPool* pool,
                                                         const Progress& progress = {});
  // Key and source alone, with nothing of the pieces checked.
  static Result<PackedFileHead> read_head(const std::string& path);

  const PackedPiece* find(std::string_view name) const;  // null when there is none
  std::size_t num_pieces() const { return pieces_.size(); }
  // Gives back a piece of which little will be read: its pages come back as they are.
  void give_back(const PackedPiece& piece) const;

 private:
  struct Parsed;
  static Result<Parsed> parse_index(std::span<const std::byte> bytes);

  std::shared_ptr<MappedFile> file_;
  std::map<std::string, PackedPiece, std::less<>> pieces_;
};

class PackedFileWriter {
 public:
  // Makes the file, which must not exist; readable by us alone.
  static Result<PackedFileWriter> create(const std::string& path, PackedFileHead head);
  ~PackedFileWriter();  // removes what was not finished
  PackedFileWriter(PackedFileWriter&& other) noexcept;
  PackedFileWriter& operator=(PackedFileWriter&&) = delete;

  // Names are different. `go_on`, if there is one, is asked before each MiB and may wait; it is told how many
  // bytes come next. cancelled: it said no. resource_exhausted: the disk is full. However much is written,
  // few MiB of it wait in memory for the disk.
  Status add(const std::string& name, const std::string& description, std::span<const std::byte> bytes,
             const std::function<bool(std::int64_t)>& go_on = {});
  // Index and header; the bytes are on the disk when this returns, and nobody may write them any more.
  Status finish();
  std::int64_t bytes() const { return static_cast<std::int64_t>(end_); }

 private:
  PackedFileWriter() = default;
  Status write(std::uint64_t offset, std::span<const std::byte> bytes);
  Status append(std::span<const std::byte> bytes);  // behind end_
  Status align();
  Status flush();

  std::vector<std::byte> block_;  // the end of the file, up to end_, that is not written yet
  std::string path_;
  int file_ = -1;
  bool finished_ = false;
  std::uint64_t end_ = 0;
  std::string index_;
};

}  // namespace pagoda
