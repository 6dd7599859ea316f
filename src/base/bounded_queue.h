#pragma once
// BoundedQueue: many producers, one consumer; the inbox of the engine thread. A full queue is a normal answer
// (try_push returns false), never a wait.
// Threads: any thread may push or close; a single thread pops.
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace pagoda {

template <class T>
class BoundedQueue {
 public:
  explicit BoundedQueue(std::size_t capacity) : capacity_(capacity) {}

  // False if the queue is full or closed; `item` is then untouched.
  [[nodiscard]] bool try_push(T&& item) {
    {
      std::lock_guard lock(mutex_);
      if (closed_ || items_.size() >= capacity_) return false;
      items_.push_back(std::move(item));
    }
    ready_.notify_one();
    return true;
  }

  // Like try_push, but ignores the bound. For control messages (abort, stop), whose number is bounded by the
  // items already admitted. False only if the queue is closed.
  bool push_control(T&& item) {
    {
      std::lock_guard lock(mutex_);
      if (closed_) return false;
      items_.push_back(std::move(item));
    }
    ready_.notify_one();
    return true;
  }

  // Removes and returns all queued items; empty if the queue is empty.
  std::vector<T> drain() {
    std::lock_guard lock(mutex_);
    return std::exchange(items_, {});
  }

  // Waits, without a deadline, until an item is queued or the queue is closed: an idle engine has nothing
  // else to do. False if the queue is closed and empty.
  bool wait() {
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [this] { return !items_.empty() || closed_; });
    return !items_.empty();
  }

  // Like wait(), but nullopt if `timeout` elapses first.
  std::optional<bool> wait_for(std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    if (!ready_.wait_for(lock, timeout, [this] { return !items_.empty() || closed_; })) return std::nullopt;
    return !items_.empty();
  }

  void close() {
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
    }
    ready_.notify_all();
  }

  bool closed() const {
    std::lock_guard lock(mutex_);
    return closed_;
  }
  std::size_t size() const {
    std::lock_guard lock(mutex_);
    return items_.size();
  }

 private:
  const std::size_t capacity_;
  mutable std::mutex mutex_;
  std::condition_variable ready_;
  std::vector<T> items_;
  bool closed_ = false;
};

}  // namespace pagoda
