#pragma once
// MappedFile: a read-only mapping of a regular file.
#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"

namespace pagoda {

class MappedFile {
 public:
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

// A whole small file as a string; corrupt_data when it is over `max_bytes`.
Result<std::string> read_text_file(const std::string& path, std::size_t max_bytes = std::size_t{64} << 20);

}  // namespace pagoda
