#pragma once
// AdmissionGate: stands before the engine's inbox and lets in what can be begun in time. It holds the load
// that the engine told last and what has been let in since, so that a burst between two steps is counted too.
//
// Not the bound on how many wait (engine_thread.h), and not the forecast itself (queue_forecast.h).
// Invariant: what is counted as arriving is what was let in and not yet taken by the load that stands here.
// Threads: any; publish() is the engine thread's. Owner: EngineThread.
#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/queue_forecast.h"

namespace pagoda {

class AdmissionGate {
 public:
  explicit AdmissionGate(double max_queue_s) : max_queue_s_(max_queue_s) {}

  // Calls `push`, which hands the request in, if it comes in time; one at a time.
  template <class Push>
  Status admit(Request request, TimeNs now, Push push) {
    std::lock_guard admitting(admit_mutex_);
    const auto [load, arriving] = seen();
    QueuedWork work;
    if (load != nullptr) {
      PAGODA_RETURN_IF_ERROR(check_in_time(*load, arriving, request, now, max_queue_s_));
      work = expected_work(*load, request);
    }
    PAGODA_RETURN_IF_ERROR(push(std::move(request)));
    std::lock_guard lock(mutex_);
    arriving_.push_back({++num_let_in_, work});
    return ok_status();
  }

  // The engine has taken the first `num_taken` requests that were let in; `load` knows them.
  void publish(EngineLoad load, std::int64_t num_taken) {
    auto latest = std::make_shared<const EngineLoad>(std::move(load));
    std::lock_guard lock(mutex_);
    load_.swap(latest);
    num_taken_ = num_taken;
    drop_taken();
  }

  // Seconds until one that comes now is begun.
  double expected_wait(const Request& like, TimeNs now) const {
    const auto [load, arriving] = seen();
    if (load == nullptr) return 0;
    const double wait = forecast(*load, arriving, expected_work(*load, like)).queue_s;
    return std::max(wait - to_seconds(now - load->time), 0.0);
  }

 private:
  struct Arriving {
    std::int64_t number;
    QueuedWork work;
  };

  std::pair<std::shared_ptr<const EngineLoad>, std::vector<QueuedWork>> seen() const {
    std::lock_guard lock(mutex_);
    std::vector<QueuedWork> arriving;
    for (const Arriving& entry : arriving_)
      if (entry.number > num_taken_) arriving.push_back(entry.work);
    return {load_, std::move(arriving)};
  }
  void drop_taken() {
    while (!arriving_.empty() && arriving_.front().number <= num_taken_) arriving_.pop_front();
  }

  const double max_queue_s_;
  std::mutex admit_mutex_;                  // before mutex_
  mutable std::mutex mutex_;                // of all below
  std::shared_ptr<const EngineLoad> load_;  // null: none has been told
  std::deque<Arriving> arriving_;           // in order; bounded as the inbox is
  std::int64_t num_let_in_ = 0, num_taken_ = 0;
};

}  // namespace pagoda
