#pragma once
// WakeList: connections with new engine output, collected until the I/O loop runs. A step yields an output
// for each of its streams at the same time, so one turn of the loop serves all of them. Outputs themselves
// are in each call's mailbox.
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
  // `ring` is called by add(), for the first entry since the last take(); it must only hand over and return.
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
