#pragma once
// AnswerFiles: stored answers as files of one folder, one each, so that they outlive the process. It does not
// decide which are kept, or for how long (answer_store.h). A file appears complete or not at all: it is
// written under another name and renamed. It has the lengths of its parts and a checksum. Damaged files are
// removed, foreign ones left alone. Files are not synced: a power failure may lose the last ones.
//
//     "pagoda answer 1\n" {"id","owner","answer":bytes,"conversation":bytes,"xxh64"} "\n" answer conversation
//
// Invariants: what read() gives is what write() was given; one process has the folder, by a lock on it.
// Threads: any, for different ids; for the same id one at a time. Owner: the AnswerStore.
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
    std::size_t bytes = 0;  // as StoredAnswer counts them
  };

  // Creates the folder if missing, for this user only. invalid_argument, in one line: it cannot be created or
  // written, or another process uses it.
  static Result<std::shared_ptr<const AnswerFiles>> open(const std::string& folder);
  ~AnswerFiles();
  AnswerFiles(const AnswerFiles&) = delete;

  // All files, least recently used first. Leftovers of a process that was killed are removed.
  std::vector<Found> list() const;
  bool write(const std::string& id, const StoredAnswer& answer) const;
  std::optional<StoredAnswer> read(const std::string& id) const;
  void remove(const std::string& id) const;
  void note_use(const std::string& id) const;  // for the order of list()

 private:
  AnswerFiles(std::string folder, int lock) : folder_(std::move(folder)), lock_(lock) {}
  std::string path_of(std::string_view id) const;

  const std::string folder_;
  const int lock_;  // file descriptor
};

// The parts of a file's bytes; nullopt if incomplete or damaged. A function of its own for fuzzing.
struct ParsedAnswerFile {
  std::string id, owner, answer, conversation;
};
std::optional<ParsedAnswerFile> parse_answer_file(std::string_view bytes);

}  // namespace pagoda
