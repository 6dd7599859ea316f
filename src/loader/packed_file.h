#pragma once
// PackedFile: named pieces of bytes in one file that is written once and then only mapped. weight_cache.h
// manages the files; models/weights/weight_store.h interprets the pieces.
//    0       magic, file size, the index's position and checksum, checksum of this header
//    4096    the pieces, each at a multiple of 4096
//    index   key, source, and each piece's name, description, position, size and checksum
// Invariants: the header is written last, so an unfinished file has none; a file that opens is complete, and
// all checksums are right. Trusts no byte; refuses files owned by other users.
// Threads: any may read.
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
  std::string key;     // identifies the source and the layout
  std::string source;  // path of the model, for display
};

class PackedFile {
 public:
  using Progress = std::function<void(std::int64_t done, std::int64_t total)>;  // in MiB

  // not_found: no such file. corrupt_data: incomplete, or not made for `key`. invalid_argument: another user
  // may write it. Reads the whole file once, on `pool` if given; afterwards it is resident.
  static Result<std::shared_ptr<const PackedFile>> open(const std::string& path, std::string_view key,
                                                        ThreadPool* pool, const Progress& progress = {});
  // The same for bytes in memory, which must outlive the result; for fuzzing.
  static Result<std::shared_ptr<const PackedFile>> parse(std::span<const std::byte> bytes,
                                                         std::string_view key, ThreadPool* pool,
                                                         const Progress& progress = {});
  // Reads only key and source; the pieces are not checked.
  static Result<PackedFileHead> read_head(const std::string& path);

  const PackedPiece* find(std::string_view name) const;  // null if absent
  std::size_t num_pieces() const { return pieces_.size(); }
  // Releases the memory of a piece of which little will be read; its pages return on access.
  void give_back(const PackedPiece& piece) const;

 private:
  struct Parsed;
  static Result<Parsed> parse_index(std::span<const std::byte> bytes);

  std::shared_ptr<MappedFile> file_;
  std::map<std::string, PackedPiece, std::less<>> pieces_;
};

class PackedFileWriter {
 public:
  // Creates the file, which must not exist, readable only by its owner.
  static Result<PackedFileWriter> create(const std::string& path, PackedFileHead head);
  ~PackedFileWriter();  // removes an unfinished file
  PackedFileWriter(PackedFileWriter&& other) noexcept;
  PackedFileWriter& operator=(PackedFileWriter&&) = delete;

  // Names must be unique. `go_on`, if given, is called before each MiB with the number of bytes to write
  // next, and may block. cancelled: it returned false. resource_exhausted: the disk is full. At any time only
  // a few MiB wait in memory for the disk.
  Status add(const std::string& name, const std::string& description, std::span<const std::byte> bytes,
             const std::function<bool(std::int64_t)>& go_on = {});
  // Writes index and header. The bytes are on the disk when this returns, and the file is read-only.
  Status finish();
  std::int64_t bytes() const { return static_cast<std::int64_t>(end_); }

 private:
  PackedFileWriter() = default;
  Status write(std::uint64_t offset, std::span<const std::byte> bytes);
  Status append(std::span<const std::byte> bytes);  // at end_
  Status align();
  Status flush();

  std::vector<std::byte> block_;  // the unwritten end of the file, up to end_
  std::string path_;
  int file_ = -1;
  bool finished_ = false;
  std::uint64_t end_ = 0;
  std::string index_;
};

}  // namespace pagoda
