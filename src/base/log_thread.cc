#include "base/log_thread.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "base/log.h"

namespace pagoda {
namespace {

constexpr std::size_t kMaxQueuedBytes = std::size_t{1} << 20;
constexpr std::chrono::seconds kLastWait{1};
std::atomic<std::int64_t> g_dropped{0};
std::mutex g_mutex;  // guards current()

}  // namespace

struct LogThread::Queue {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::string> lines;
  std::size_t bytes = 0;
  bool ending = false, ended = false;

  void write_all() {
    std::unique_lock lock(mutex);
    for (std::int64_t reported = g_dropped; !lines.empty() || !ending;) {
      changed.wait(lock, [this] { return ending || !lines.empty(); });
      if (lines.empty()) break;
      std::string line = std::move(lines.front());
      lines.pop_front();
      bytes -= line.size();
      lock.unlock();
      if (const std::int64_t dropped = g_dropped; dropped > reported) {
        line.append(
            log_line(LogLevel::warning, "log", std::to_string(dropped - reported) + " lines were lost here"));
        reported = dropped;
      }
      if (write(STDERR_FILENO, line.data(), line.size()) < 0) {
        count_dropped_log_line();
        ++reported;  // do not report this loss: stderr cannot be written
      }
      lock.lock();
    }
    ended = true;
    changed.notify_all();
  }
};

std::shared_ptr<LogThread::Queue>& LogThread::current() {
  static auto* const queue =
      new std::shared_ptr<Queue>;  // never destroyed: lines may be logged until the very end
  return *queue;
}

LogThread::LogThread() : queue_(std::make_shared<Queue>()) {
  (void)signal(SIGPIPE, SIG_IGN);
  std::thread([queue = queue_] { queue->write_all(); }).detach();
  std::lock_guard lock(g_mutex);
  current() = queue_;
}

LogThread::~LogThread() {
  {
    std::lock_guard lock(g_mutex);
    current() = nullptr;
  }
  std::unique_lock lock(queue_->mutex);
  queue_->ending = true;
  queue_->changed.notify_all();
  queue_->changed.wait_for(lock, kLastWait, [this] { return queue_->ended; });
}

bool queue_log_line(std::string& line) {
  std::shared_ptr<LogThread::Queue> queue;
  {
    std::lock_guard lock(g_mutex);
    queue = LogThread::current();
  }
  if (queue == nullptr) return false;
  {
    std::lock_guard lock(queue->mutex);
    if (queue->bytes + line.size() > kMaxQueuedBytes) {
      count_dropped_log_line();
      return true;
    }
    queue->bytes += line.size();
    queue->lines.push_back(std::move(line));
  }
  queue->changed.notify_all();
  return true;
}

std::int64_t log_lines_dropped() { return g_dropped.load(std::memory_order_relaxed); }
void count_dropped_log_line() { g_dropped.fetch_add(1, std::memory_order_relaxed); }

}  // namespace pagoda
