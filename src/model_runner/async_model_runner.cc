#include "model_runner/async_model_runner.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/check.h"
#include "base/compute_beats.h"
#include "base/log.h"
#include "base/strings.h"

namespace pagoda {

AsyncModelRunner::AsyncModelRunner(std::unique_ptr<ModelRunner> runner) : runner_(std::move(runner)) {
  thread_ = std::thread([this] { loop(); });
}

AsyncModelRunner::~AsyncModelRunner() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void AsyncModelRunner::submit(const ScheduledBatch& batch) {
  Held* held = nullptr;
  {
    const std::lock_guard lock(mutex_);
    CHECK(num_submitted_ - num_waited_ < kMaxInFlight);
    held = &held_[static_cast<std::size_t>(num_submitted_ % kMaxInFlight)];
  }
  held->batch.copy(batch);
  held->beats = &beats_of_this_thread();
  {
    const std::lock_guard lock(mutex_);
    ++num_submitted_;
  }
  changed_.notify_all();
}

StepResult AsyncModelRunner::wait() {
  std::unique_lock lock(mutex_);
  CHECK(num_waited_ < num_submitted_);
  changed_.wait(lock, [this] { return num_run_ > num_waited_; });
  return std::move(held_[static_cast<std::size_t>(num_waited_++ % kMaxInFlight)].result);
}

StepResult AsyncModelRunner::run(const ScheduledBatch& batch) {
  submit(batch);
  return wait();
}

void AsyncModelRunner::settle() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return num_run_ == num_submitted_; });
}

void AsyncModelRunner::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return num_run_ < num_submitted_ || stopping_; });
    if (num_run_ == num_submitted_) return;
    Held& held = held_[static_cast<std::size_t>(num_run_ % kMaxInFlight)];
    lock.unlock();
    carry_out(held);
    lock.lock();
    ++num_run_;
    changed_.notify_all();
  }
}

// After a failed batch nothing runs, since the tokens that it should have drawn are missing.
void AsyncModelRunner::carry_out(Held& held) {
  count_compute_beats(*held.beats);
  held.result = {};
  held.result.status = failed_;
  if (!failed_.ok()) return;
  held.batch.fill_in(drawn_);
  try {
    held.result = runner_->run(held.batch.batch());
  } catch (const std::exception& error) {  // e.g. out of memory in a library
    log_error("engine", concat("the model runner threw: ", error.what()));
    held.result.status = internal_error("The engine has failed.");
  }
  failed_ = held.result.status;
  if (!failed_.ok()) return;
  drawn_ = drawn_tokens(held.result);
}

}  // namespace pagoda
