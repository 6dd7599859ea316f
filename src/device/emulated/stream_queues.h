#pragma once
// StreamQueues: the streams of an emulated device. Enqueued work runs on a caller's thread, when it is waited
// for or earlier, in any order that streams and events allow, chosen by a seed. So work that fails to wait
// for an event runs too early, or too late, with some seed. Errors: a task's own, which ends everything;
// internal: streams that wait for each other. Threads: one at a time.
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "base/status.h"
#include "device/device.h"

namespace pagoda::device::emulated {

class StreamQueues {
 public:
  using Task = std::function<Status()>;

  explicit StreamQueues(std::uint64_t seed) : seed_(seed) {}

  StreamId add_stream();
  EventId add_event();
  bool has(StreamId stream) const;
  bool has(EventId event) const;

  Status push(StreamId stream, Task task);
  Status record(EventId event, StreamId stream);
  Status wait(StreamId stream, EventId event);
  bool is_empty(StreamId stream) { return queue(stream).empty(); }
  // True if its latest record() has run.
  bool has_reached(EventId id) { return event(id).reached == event(id).recorded; }
  // Runs one item of a stream chosen by the seed. internal: all streams with work wait for each other.
  Status run_one();
  bool idle() const;  // nothing is left to run

 private:
  struct Entry {
    enum class What : std::uint8_t { task, record, wait } what = What::task;
    Task task = {};
    EventId event = {};
    std::uint64_t round = 0;  // round of the event
  };
  struct Event {
    std::uint64_t recorded = 0, reached = 0;  // rounds enqueued, and run
  };
  std::deque<Entry>& queue(StreamId stream) { return streams_[static_cast<std::size_t>(stream)]; }
  Event& event(EventId id) { return events_[static_cast<std::size_t>(id)]; }
  bool ready(const std::deque<Entry>& queue);
  std::uint64_t draw();
  Status put(StreamId stream, Entry entry);
  Status run_one(bool& any);

  std::uint64_t seed_, drawn_ = 0;
  std::vector<std::deque<Entry>> streams_;
  std::vector<Event> events_;
};

}  // namespace pagoda::device::emulated
