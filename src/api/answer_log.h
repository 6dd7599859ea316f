#pragma once
// AnswerLog: the events of one streamed answer, kept while it is made and as long as the answer is, so that
// any number of clients can follow it, from the beginning or from where they broke off. Not how events look
// (the protocol's writer), and not where they go (server/). Bounded in bytes: beyond them what is made is not
// kept, and readers get what is there and no end. Invariant: events are numbered from 0; a reader gets each
// once, in order. Threads: any; bells are rung by who appends.
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
  void end();  // nothing will be appended any more

  class Reader {
   public:
    ~Reader();
    Reader(const Reader&) = delete;
    // Appends what there is, near `max_bytes`. False: that was all there will be.
    bool take(std::string& out, std::size_t max_bytes);

   private:
    friend class AnswerLog;
    Reader(std::shared_ptr<AnswerLog> log, std::uint64_t bell, std::size_t next)
        : log_(std::move(log)), bell_(bell), next_(next) {}
    const std::shared_ptr<AnswerLog> log_;
    const std::uint64_t bell_;
    std::size_t next_;
  };
  // From event `first` on. `ring` is called when there is more, on any thread: it hands over and returns.
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
