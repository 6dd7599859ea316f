#pragma once
// AnswerStore: answers that a client may ask for again by their id, for protocols that promise it. Texts in
// memory, in no protocol's form, bounded in bytes: the one that was not asked for the longest leaves first.
// What is still being made is here, too, and is not made to leave. Gone with the process. An answer belongs
// to an owner; for anybody else there is none. Threads: any.
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace pagoda {

struct StoredAnswer {
  std::string owner;
  std::string answer;        // as a client is given it
  std::string conversation;  // what it is an answer to
  bool running = false;

  std::size_t bytes() const { return owner.size() + answer.size() + conversation.size() + 256; }
};

class AnswerStore {
 public:
  explicit AnswerStore(std::size_t max_bytes) : max_bytes_(max_bytes) {}  // 0: nothing is kept

  bool enabled() const { return max_bytes_ > 0; }
  // False: the id is taken, or there is no room for it.
  bool add(const std::string& id, StoredAnswer answer);
  // What a running one has become. False: it has been erased, or is not running any more.
  bool finish(const std::string& id, std::string answer);
  std::optional<StoredAnswer> find(std::string_view id, std::string_view owner);
  bool erase(std::string_view id, std::string_view owner);

  std::size_t bytes() const;
  void check_invariants() const;

 private:
  struct Entry {
    StoredAnswer answer;
    std::list<std::string>::iterator place;
  };
  using Entries = std::map<std::string, Entry, std::less<>>;
  bool make_room();
  void remove(Entries::iterator entry);

  const std::size_t max_bytes_;
  mutable std::mutex mutex_;
  std::size_t bytes_ = 0;
  std::list<std::string> by_use_;  // the last used first
  Entries entries_;
};

// Calls that go on without the client that made them.
class DetachedCalls {
 public:
  virtual ~DetachedCalls() = default;
  virtual bool cancel(std::string_view id) = 0;  // false: there is none of this id
};

}  // namespace pagoda
