#pragma once
// NewFile: a file written from start to end that gets its name only when complete: an unfinished file, or one
// whose process is killed, leaves nothing behind. On file systems without O_TMPFILE the file has its name
// from the start, and is removed with the object. Never replaces an existing file.
// Threads: one. Owner: the caller.
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace pagoda {

class NewFile {
 public:
  // invalid_argument: `path` exists or cannot be written.
  static Result<std::unique_ptr<NewFile>> create(const std::string& path);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  Status write(std::string_view bytes);
  // Gives the file its name; no writes may follow.
  Status finish();

 private:
  explicit NewFile(std::string path) : path_(std::move(path)) {}
  Status open();
  Status failed() const;

  std::string path_;
  int file_ = -1;
  bool named_ = false, finished_ = false;
};

}  // namespace pagoda
