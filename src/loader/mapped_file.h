#pragma once
// MappedFile: a read-only mapping of a regular file. Pages are read on first touch; asking for them ahead
// is left to whoever knows the order of use. Not a defence against a file that another program truncates
// while it is mapped: that raises SIGBUS, which install_sigbus_handler() turns into one line and exit 2.
// Threads: any may read.
#include <cstddef>
#include <memory>
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

 private:
  MappedFile() = default;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::string path_;
};

// A whole small file as a string; corrupt_data when it is over `max_bytes`, else as MappedFile::open.
Result<std::string> read_text_file(const std::string& path, std::size_t max_bytes = std::size_t{64} << 20);

// For the program's start: a mapped file cut short under us ends the process with one line and code 2.
void install_sigbus_handler();

}  // namespace pagoda
