#pragma once
// MappedFile: a read-only mapping of a regular file. Pages are read on first touch; asking for them ahead
// is left to whoever knows the order of use. Not a defence against a file that another program truncates
// while it is mapped: that raises SIGBUS, which install_sigbus_handler() turns into one line and exit 2.
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
  // not_found: no such file. invalid_argument: not a regular file (a folder, a pipe), or not readable.
  static Result<std::shared_ptr<MappedFile>> open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

  // Tells this file from others, and from its own earlier and later contents: size, inode and times of change
  // when it was opened, and a checksum of its first `header_bytes`. Its name does not.
  std::string identity(std::size_t header_bytes) const;
  // Whether the file that has the path now is still what was opened. Waits, some milliseconds, until the file
  // system's clock has passed the last change, so that any later one shows.
  bool unchanged() const;
  // These bytes are not needed for now: their memory is the system's, until they are read again.
  void give_back(std::span<const std::byte> bytes) const;
  // These bytes are read next, and most likely what lies behind them: the system begins to read some MiB
  // ahead.
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
  mutable std::atomic<std::size_t> ahead_ = 0;  // the end of what read_ahead() has asked for
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::string path_;
};

// A whole small file as a string; corrupt_data when it is over `max_bytes`, else as MappedFile::open.
Result<std::string> read_text_file(const std::string& path, std::size_t max_bytes = std::size_t{64} << 20);
// The same; nullopt where it cannot be read, whyever.
std::optional<std::string> optional_text_file(const std::string& path,
                                              std::size_t max_bytes = std::size_t{64} << 20);

// For the program's start: a mapped file cut short under us ends the process with one line and code 2.
void install_sigbus_handler();

}  // namespace pagoda
