#pragma once
// RequestTable: the requests that an engine serves, by id, with their deadlines, preemption times, aborts
// that wait for the step in flight to retire, and counts over the engine's lifetime. It holds a request from
// acceptance to its last output; the scheduler and decoding point into it. It makes no decisions. Invariants:
// num_added() == num_finished() + size(); every request with a deadline is listed under it. An ended request
// stays in memory as long as a step in flight names it. Threads: none; the engine thread's.
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "decoding/constraint_set.h"
#include "decoding/strategy.h"
#include "engine/client.h"
#include "engine/poison_record.h"
#include "request/request_times.h"
#include "request/sequence.h"
#include "scheduler/scheduler.h"

namespace pagoda {

struct RequestState {
  SequenceGroup group;
  std::unique_ptr<DecodingStrategy> strategy;
  std::unique_ptr<ConstraintSet> constraints;  // null: unconstrained
  std::shared_ptr<OutputSink> sink;
  RequestTimes times;
  TimeNs preempted_at = 0;   // 0: in the batch, or never scheduled
  TimeNs preempted_for = 0;  // since the last token
  bool sent_prompt_logprobs = false;
  std::int64_t num_output_tokens = 0;  // over all sequences, dropped ones included
  RequestDigest digest{};              // for the poison record
  std::string prefix_name;             // not empty: a prefix to be pinned, not a client's request
  Status prefix_status = unavailable("The prefix was dropped before it was computed.");
};

// An abort that waits until no step is in flight.
struct PendingAbort {
  RequestId id{};
  std::optional<std::int32_t> index;  // one sequence; absent: the whole request
  Status error;                       // reported in the last output
};

class RequestTable {
 public:
  RequestState& add(std::unique_ptr<RequestState> state);  // CHECKs that the id is new
  void remove(RequestState& state);                        // the request has finished
  RequestState* find(RequestId id);                        // null: not served
  RequestState& of(const SequenceGroup& group);            // CHECKs that the group is served

  bool empty() const { return requests_.empty(); }
  std::int64_t size() const { return std::ssize(requests_); }
  auto begin() const { return requests_.begin(); }  // pairs of id and unique_ptr, in no order
  auto end() const { return requests_.end(); }
  std::int64_t num_constrained() const { return num_constrained_; }
  // Requests with a deadline, ordered by time.
  const std::set<std::pair<TimeNs, RequestId>>& deadlines() const { return deadlines_; }

  // Called when the batch of step number `step` was scheduled at `now`: records when requests first enter a
  // batch, and how long preemption keeps them out.
  void note_scheduled(std::int64_t step, std::span<const ScheduledRef> batch,
                      std::span<SequenceGroup* const> preempted, TimeNs now);
  // Called when that step and all before it have retired.
  void note_retired(std::int64_t step);

  void mark_aborted(PendingAbort abort) { aborts_.push_back(std::move(abort)); }
  bool has_aborts() const { return !aborts_.empty(); }
  std::vector<PendingAbort> take_aborts() { return std::exchange(aborts_, {}); }

  // Counts since the start. Started: has left the waiting queue for the first time, for whatever reason.
  std::int64_t num_added() const { return num_added_; }
  std::int64_t num_started() const { return num_started_; }
  std::int64_t num_finished() const { return num_finished_; }
  std::int64_t num_waiting() const { return size() - (num_started_ - num_finished_); }  // never scheduled yet

 private:
  std::unordered_map<RequestId, std::unique_ptr<RequestState>> requests_;
  std::set<std::pair<TimeNs, RequestId>> deadlines_;
  std::vector<PendingAbort> aborts_;
  std::vector<std::unique_ptr<RequestState>> ended_;  // named by a step in flight
  std::int64_t last_retired_ = 0;
  std::int64_t num_added_ = 0, num_started_ = 0, num_finished_ = 0;
  std::int64_t num_constrained_ = 0;
  std::int64_t num_preempted_ = 0;  // out of the batch now
};

}  // namespace pagoda
