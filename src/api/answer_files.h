#pragma once
// AnswerFiles: kept answers as files of one folder, one each, so that they outlive the process. Not which of
// them are kept, and for how long (answer_store.h). A file appears whole or not at all: it is written beside
// its place and renamed. It says how long its parts are and their checksum; one that is damaged, or is not
// ours, is no answer, and is removed or left alone. Not synced: after a power cut the last ones may be gone.
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

  // Makes the folder where there is none, for this user alone. invalid_argument, in one line: it cannot be
  // made or written, or another process has it.
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

// The parts of a file's bytes; nothing where they are not whole. Apart, for fuzzing.
struct ParsedAnswerFile {
  std::string id, owner, answer, conversation;
};
std::optional<ParsedAnswerFile> parse_answer_file(std::string_view bytes);

}  // namespace pagoda
