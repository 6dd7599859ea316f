#pragma once
// AnswerLog: the events of one streamed answer, kept for as long as the stored answer. Any number of clients
// can follow it, from the beginning or from where they disconnected. The protocol's writer defines the form
// of events, and server/ sends them. Bounded in bytes: events beyond the bound are dropped, so readers get
// the earlier ones but not the final one. Invariant: events are numbered from 0; a reader gets each once, in
// order. Threads: any; the appending thread calls the readers' `ring`.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace pagoda {

class AnswerLog : public std::enable_shared_from_this<AnswerLog> {
 public:
  explicit AnswerLog(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  void append(std::string_view event);
  void end();  // no further append() follows

  class Reader {
   public:
    ~Reader();
    Reader(const Reader&) = delete;
    // Appends the events available to `out`, up to about `max_bytes`. Returns false once the log has ended
    // and all its events have been taken.
    bool take(std::string& out, std::size_t max_bytes);

   private:
    friend class AnswerLog;
    Reader(std::shared_ptr<AnswerLog> log, std::uint64_t bell, std::size_t next)
        : log_(std::move(log)), bell_(bell), next_(next) {}
    const std::shared_ptr<AnswerLog> log_;
    const std::uint64_t bell_;
    std::size_t next_;
  };
  // Reads from event `first` on. `ring` is called on any thread, under the log's lock, when more is
  // available; it must only hand over and return.
  std::unique_ptr<Reader> follow(std::size_t first, std::function<void()> ring);

  std::size_t bytes() const;
  std::size_t max_bytes() const { return max_bytes_; }

 private:
  void ring_all();

  const std::size_t max_bytes_;
  mutable std::mutex mutex_;
  std::string text_;
  std::vector<std::size_t> ends_;  // end of each event in text_
  bool ended_ = false, full_ = false;
  std::map<std::uint64_t, std::function<void()>> bells_;
  std::uint64_t next_bell_ = 0;
};

}  // namespace pagoda
