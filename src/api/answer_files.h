#pragma once
// AnswerFiles: stores answers on disk, one file per answer in one folder, so that they outlive the process.
// It does not decide which answers are kept, or for how long (answer_store.h). Files are written under a
// temporary name and renamed, so a file is either complete or absent. A file records the lengths of its parts
// and a checksum. Damaged files are removed; files that are not ours are left alone. Files are not synced: a
// power failure may lose the latest ones.
//
//     "pagoda answer 1\n" {"id","owner","answer":bytes,"conversation":bytes,"xxh64"} "\n" answer conversation
//
// Invariants: read() returns exactly what write() stored; a lock on the folder restricts it to one process.
// Threads: any, for different ids; one at a time for the same id. Owner: the AnswerStore.
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace pagoda {

struct StoredAnswer;

class AnswerFiles {
 public:
  struct Found {
    std::string id, owner;
    std::size_t bytes = 0;  // counted as in StoredAnswer::bytes()
  };

  // Creates the folder if missing, accessible to this user only. invalid_argument, with a one-line message,
  // if the folder cannot be created or written, or if another process uses it.
  static Result<std::shared_ptr<const AnswerFiles>> open(const std::string& folder);
  ~AnswerFiles();
  AnswerFiles(const AnswerFiles&) = delete;

  // Lists all files, least recently used first. Removes temporary files left by a killed process.
  std::vector<Found> list() const;
  bool write(const std::string& id, const StoredAnswer& answer) const;
  std::optional<StoredAnswer> read(const std::string& id) const;
  void remove(const std::string& id) const;
  void note_use(const std::string& id) const;  // marks as most recently used

 private:
  AnswerFiles(std::string folder, int lock) : folder_(std::move(folder)), lock_(lock) {}
  std::string path_of(std::string_view id) const;

  const std::string folder_;
  const int lock_;  // file descriptor
};

// Splits a file's bytes into their parts; nullopt if incomplete or damaged. Exposed for fuzzing.
struct ParsedAnswerFile {
  std::string id, owner, answer, conversation;
};
std::optional<ParsedAnswerFile> parse_answer_file(std::string_view bytes);

}  // namespace pagoda
