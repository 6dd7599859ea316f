#pragma once
// Steps: work that pauses and resumes later, written as plain code: a coroutine that pauses at each `co_await
// rest()`. For long work that must not hold a thread, or memory, for its whole duration.
//
//     Steps work = write_all();
//     while (work.step()) …;              // until it is done
//
// To run another Steps inside: for (Steps part = write_part(); part.step();) co_await rest();
// Everything that the coroutine frame refers to must outlive it. An exception propagates out of step(), after
// which the work is done. Threads: none; one at a time.
#include <coroutine>
#include <utility>

namespace pagoda {

inline std::suspend_always rest() { return {}; }

class Steps {
 public:
  struct promise_type {
    Steps get_return_object() { return Steps(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() { throw; }
  };

  Steps() = default;
  Steps(Steps&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Steps& operator=(Steps&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Steps() {
    if (handle_) handle_.destroy();
  }

  // Runs to the next pause, or to the end. True if there is more to do.
  bool step() {
    if (handle_ && !handle_.done()) handle_.resume();
    return handle_ && !handle_.done();
  }
  explicit operator bool() const { return handle_ != nullptr; }

 private:
  explicit Steps(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
};

}  // namespace pagoda
