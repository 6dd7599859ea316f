#pragma once
// LoadingThread: runs jobs that may take seconds, one at a time, on a separate thread, so that neither
// sockets nor parsing wait for them. At most kMaxWaiting jobs wait; more are refused. Jobs that have not
// begun at destruction are dropped. Threads: any.
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace pagoda {

class LoadingThread {
 public:
  static constexpr std::size_t kMaxWaiting = 16;
  using Job = std::function<void()>;

  LoadingThread() = default;
  LoadingThread(const LoadingThread&) = delete;
  ~LoadingThread() {  // waits for the running job
    {
      std::lock_guard lock(mutex_);
      ending_ = true;
      waiting_.clear();
    }
    wake_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  // Returns false if kMaxWaiting jobs are waiting.
  [[nodiscard]] bool run(Job job) {
    std::lock_guard lock(mutex_);
    if (waiting_.size() >= kMaxWaiting) return false;
    waiting_.push_back(std::move(job));
    if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
    wake_.notify_one();
    return true;
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
      if (ending_) return;
      const Job job = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      job();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job> waiting_;  // guarded
  bool ending_ = false;      // guarded
  std::thread thread_;
};

}  // namespace pagoda
