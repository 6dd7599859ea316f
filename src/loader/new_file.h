#pragma once
// NewFile: a file that is written from its begin to its end and has its name only when it is whole: one that
// is not finished, or whose process is killed, leaves nothing behind (on file systems without O_TMPFILE the
// file has its name from the start, and goes with the object). A file that is there is never replaced.
// Threads: one. Owner: whoever writes.
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace pagoda {

class NewFile {
 public:
  // invalid_argument: `path` exists, or cannot be written.
  static Result<std::unique_ptr<NewFile>> create(const std::string& path);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  Status write(std::string_view bytes);
  // Gives it its name; nothing may be written afterwards.
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
