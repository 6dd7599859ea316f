#pragma once
// MappedFile: a read-only mapping of a regular file. Pages are read on first touch; prefetching is left to
// callers that know the order of use. If another program truncates the file while it is mapped, SIGBUS is
// raised, which install_sigbus_handler() turns into one line and exit code 2.
// Threads: any may read.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/status.h"

namespace pagoda {

class MappedFile {
 public:
  // not_found: no such file. invalid_argument: not a regular file (a folder, a pipe), or unreadable.
  static Result<std::shared_ptr<MappedFile>> open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

  // Identifies the file and its content: size, inode and times of change when it was opened, and a checksum
  // of its first `header_bytes`. Independent of the file's name.
  std::string identity(std::size_t header_bytes) const;
  // True if the path still refers to the file as it was opened. Waits some milliseconds until the file
  // system's clock has passed the last change, so that any later change is visible.
  bool unchanged() const;
  // Releases the memory of these bytes until they are read again.
  void give_back(std::span<const std::byte> bytes) const;
  // Announces that these bytes are read next, and most likely the bytes after them: the system begins to read
  // some MiB ahead.
  void read_ahead(std::span<const std::byte> bytes) const;

 private:
  struct Stamp {
    std::uint64_t inode = 0, bytes = 0;
    std::int64_t modified = 0, changed = 0;  // nanoseconds
    bool operator==(const Stamp&) const = default;
  };
  template <class Stat>
  static Stamp stamp_of(const Stat& info);
  MappedFile() = default;
  bool has(std::span<const std::byte> bytes) const;
  Stamp stamp_;
  mutable std::atomic<std::size_t> ahead_ = 0;  // the end of the range requested by read_ahead()
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::string path_;
};

// Returns a whole small file as a string. corrupt_data: larger than `max_bytes`; other errors as
// MappedFile::open.
Result<std::string> read_text_file(const std::string& path, std::size_t max_bytes = std::size_t{64} << 20);
// The same; nullopt on any error.
std::optional<std::string> optional_text_file(const std::string& path,
                                              std::size_t max_bytes = std::size_t{64} << 20);

// Call at program start: if a mapped file is truncated, the process ends with one line and code 2.
void install_sigbus_handler();

}  // namespace pagoda
