#pragma once
// AdmissionGate: refuses requests that could not start in time, before they enter the engine's inbox. It
// knows the load that the engine last published and the requests accepted since, so that bursts between two
// steps count.
//
// It does not bound the number of waiting requests (engine_thread.h) and does not compute the forecast
// (queue_forecast.h). Invariant: its load is the published one plus the accepted requests that the engine has
// not taken yet, in order. Threads: any; publish() is the engine thread's. Owner: EngineThread.
#include <algorithm>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "engine/queue_forecast.h"

namespace pagoda {

class AdmissionGate {
 public:
  explicit AdmissionGate(double max_queue_s) : max_queue_s_(max_queue_s) {}

  // Calls `push`, which submits the request, if the request can start in time. Calls are serialized.
  // Arguments of `push`: the request, the number of its tenant's waiting requests, and the number of active
  // tenants including its own.
  template <class Push>
  Status admit(Request request, TimeNs now, Push push) {
    std::lock_guard lock(mutex_);
    PAGODA_RETURN_IF_ERROR(check_in_time(load_, request, now, max_queue_s_));
    const TenantLoad* const known = load_.find(request.tenant);
    const std::int64_t waiting = known == nullptr ? 0 : known->num_waiting;
    const auto tenants = std::ssize(load_.tenants) + (known == nullptr ? 1 : 0);
    Arriving arriving{.number = num_let_in_ + 1, .tenant = request.tenant, .record = order_record(request)};
    arriving.work = expected_work(load_, arriving.record);
    PAGODA_RETURN_IF_ERROR(push(std::move(request), waiting, tenants));
    ++num_let_in_;
    count(arriving_.emplace_back(std::move(arriving)));
    return ok_status();
  }

  // Called when the engine has taken the first `num_taken` accepted requests; `load` includes them.
  void publish(EngineLoad load, std::int64_t num_taken) {
    std::lock_guard lock(mutex_);
    std::swap(load_, load);
    while (!arriving_.empty() && arriving_.front().number <= num_taken) arriving_.pop_front();
    for (Arriving& entry : arriving_) count(entry);
  }

  // Returns the status with which every request of the tenant would be refused now, and the wait in seconds
  // of the smallest possible request (one token). nullopt if the answer depends on the request.
  std::optional<std::pair<Status, double>> refuse_any(std::string_view tenant, TimeNs now) const {
    Request least;
    least.prompt_token_ids = {0};
    least.sampling.max_tokens = 1;
    least.tenant = tenant;
    std::lock_guard lock(mutex_);
    switch (facts(load_.policy).queue) {
      case QueueOrder::arrival:
      case QueueOrder::turns:
        break;
      case QueueOrder::rank:
        return std::nullopt;
    }
    double wait_s = 0;
    Status status = check_in_time(load_, least, now, max_queue_s_, &wait_s);
    if (status.ok()) return std::nullopt;
    return std::pair(std::move(status), wait_s);
  }

  // Expected seconds until a request that arrives now would start.
  double expected_wait(const Request& like, TimeNs now) const {
    std::lock_guard lock(mutex_);
    const double wait = forecast(load_, expected_work(load_, order_record(like))).queue_s;
    return std::max(wait - to_seconds(now - load_.time), 0.0);
  }

 private:
  struct Arriving {
    std::int64_t number;
    std::string tenant;
    OrderRecord record;
    QueuedWork work = {};
  };
  void count(Arriving& entry) {
    entry.record.tenant = entry.tenant;  // the tenant's text has moved with the entry
    add_waiting(load_, entry.work, entry.record);
  }

  const double max_queue_s_;
  mutable std::mutex mutex_;       // guards the fields below
  EngineLoad load_;                // without costs until the engine first publishes
  std::deque<Arriving> arriving_;  // in order; bounded like the inbox
  std::int64_t num_let_in_ = 0;
};

}  // namespace pagoda
