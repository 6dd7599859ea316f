#pragma once
// WakeList: the connections that the engine has something for, gathered until the I/O loop comes round. A
// step ends with an output for each of its streams at once: one turn of the loop serves them all. Not a queue
// of outputs, which lie in each call's mailbox.
// Threads: any.
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace pagoda {

template <class T>
class WakeList {
 public:
  // `ring` is called by add(), for the first entry since the last take(): it must hand over and return.
  explicit WakeList(std::function<void()> ring) : ring_(std::move(ring)) {}

  void add(std::weak_ptr<T> waiting) {
    {
      std::lock_guard lock(mutex_);
      waiting_.push_back(std::move(waiting));
      if (waiting_.size() > 1) return;
    }
    ring_();
  }

  std::vector<std::weak_ptr<T>> take() {
    std::lock_guard lock(mutex_);
    return std::exchange(waiting_, {});
  }

 private:
  const std::function<void()> ring_;
  std::mutex mutex_;
  std::vector<std::weak_ptr<T>> waiting_;
};

}  // namespace pagoda
