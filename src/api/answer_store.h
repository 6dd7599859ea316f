#pragma once
// AnswerStore: answers that clients can retrieve by id. Its texts are opaque, and limited in bytes; the least
// recently used is evicted first. Only its owner can find an answer.
//     add(running) -> finish -> settled            with files (answer_files.h): settled -> written
//     add ----------------------> settled
//   * Running answers are in memory and are never evicted. Files are written on a thread of the store's own,
//     so that a slow disk blocks no request; an answer is in memory, within the bound, until it is written.
//   * Invariant: bytes() is the sum over all listed answers, written or not, and at most the bound.
// Threads: any. Owner: the server; it ends after its users, and then writes the rest.
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
  std::string conversation;  // the conversation that it answers
  bool running = false;
  // Its stream so far, for clients that follow it; not in files. Null: not streamed.
  std::shared_ptr<AnswerLog> log = {};

  std::size_t bytes() const {
    const std::size_t of_log = log == nullptr ? 0 : running ? log->max_bytes() : log->bytes();
    return owner.size() + answer.size() + conversation.size() + of_log + 256;
  }
};

class AnswerStore {
 public:
  // 0: nothing is kept. `files` null: in memory.
  explicit AnswerStore(std::size_t max_bytes, std::shared_ptr<const AnswerFiles> files = nullptr);
  ~AnswerStore();
  AnswerStore(const AnswerStore&) = delete;

  bool enabled() const { return max_bytes_ > 0; }
  std::size_t max_bytes() const { return max_bytes_; }
  // False: the id exists, or the answer does not fit.
  bool add(const std::string& id, StoredAnswer answer);
  // Stores the end of a running answer. False: it has been erased, or is no longer running.
  bool finish(const std::string& id, std::string answer);
  std::optional<StoredAnswer> find(std::string_view id, std::string_view owner);
  bool erase(std::string_view id, std::string_view owner);

  std::size_t bytes() const;
  void wait_until_written();  // for tests
  void check_invariants() const;

 private:
  struct Entry {
    StoredAnswer answer;  // without its texts once they are in a file
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
  std::list<std::string> by_use_;  // the last used first
  Entries entries_;
  std::deque<std::string> to_write_;
  std::string being_written_;
  bool ending_ = false;
  std::thread writer_;  // last: uses all of the above
};

// Calls that continue without their client.
class DetachedCalls {
 public:
  virtual ~DetachedCalls() = default;
  virtual bool cancel(std::string_view id) = 0;  // false: unknown id
};

}  // namespace pagoda
