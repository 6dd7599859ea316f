#pragma once
// Steps: a piece of work that stops in the middle and goes on later, written as plain code: a coroutine that
// rests with `co_await rest()`. For work that must not hold a thread, or memory, for as long as it takes in
// all.
//
//     Steps work = write_all();
//     while (work.step()) …;              // until it is done
//
// Inside, another one is run with: for (Steps part = write_part(); part.step();) co_await rest();
// What its frame refers to must outlive it; an exception comes out of step(), after which it is done.
// Threads: none; one at a time.
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

  // Goes on to the next rest, or to the end. True: there is more to do.
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
