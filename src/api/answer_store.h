#pragma once
// AnswerStore: answers that clients can retrieve by id. Texts are opaque, and their total size is limited;
// the least recently used answer is evicted first. Only an answer's owner can find it.
//     add(running) -> finish -> settled            with files (answer_files.h): settled -> written
//     add ----------------------> settled
//   * Running answers are in memory and are never evicted. A dedicated thread writes files, so that a slow
//     disk blocks no request; an answer stays in memory, within the bound, until it is written.
//   * Invariant: bytes() is the sum over all listed answers, written or not, and at most the bound.
// Threads: any. Owner: the server. The store outlives its users; its destructor writes the remaining answers.
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "api/answer_files.h"
#include "api/answer_log.h"

namespace pagoda {

struct StoredAnswer {
  std::string owner;
  std::string answer;        // as returned to a client
  std::string conversation;  // the conversation up to this answer
  bool running = false;
  // Events streamed so far, for clients that follow the answer; not written to files. Null if not streamed.
  std::shared_ptr<AnswerLog> log = {};

  std::size_t bytes() const {
    const std::size_t of_log = log == nullptr ? 0 : running ? log->max_bytes() : log->bytes();
    return owner.size() + answer.size() + conversation.size() + of_log + 256;
  }
};

class AnswerStore {
 public:
  // `max_bytes` 0: keeps no answers. `files` null: answers are kept in memory only.
  explicit AnswerStore(std::size_t max_bytes, std::shared_ptr<const AnswerFiles> files = nullptr);
  ~AnswerStore();
  AnswerStore(const AnswerStore&) = delete;

  bool enabled() const { return max_bytes_ > 0; }
  std::size_t max_bytes() const { return max_bytes_; }
  // Returns false if the id exists or the answer does not fit.
  bool add(const std::string& id, StoredAnswer answer);
  // Stores the final text of a running answer. Returns false if the answer was erased or is no longer
  // running.
  bool finish(const std::string& id, std::string answer);
  std::optional<StoredAnswer> find(std::string_view id, std::string_view owner);
  bool erase(std::string_view id, std::string_view owner);

  std::size_t bytes() const;
  void wait_until_written();  // for tests
  void check_invariants() const;

 private:
  struct Entry {
    StoredAnswer answer;  // without its texts once they have been written to a file
    std::size_t bytes = 0;
    bool written = false;
    std::list<std::string>::iterator place;
  };
  using Entries = std::map<std::string, Entry, std::less<>>;
  bool make_space();
  void remove(Entries::iterator entry);
  void settle(const std::string& id);
  void write_files();

  const std::size_t max_bytes_;
  const std::shared_ptr<const AnswerFiles> files_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t bytes_ = 0;
  std::list<std::string> by_use_;  // most recently used first
  Entries entries_;
  std::deque<std::string> to_write_;
  std::string being_written_;
  bool ending_ = false;
  std::thread writer_;  // last, because it uses all members above
};

// Calls that continue without their client.
class DetachedCalls {
 public:
  virtual ~DetachedCalls() = default;
  virtual bool cancel(std::string_view id) = 0;  // false if the id is unknown
};

}  // namespace pagoda
