#include "device/emulated/stream_queues.h"

#include <algorithm>
#include <utility>

#include "base/random.h"

namespace pagoda::device::emulated {

StreamId StreamQueues::add_stream() {
  streams_.emplace_back();
  return static_cast<StreamId>(streams_.size() - 1);
}

EventId StreamQueues::add_event() {
  events_.emplace_back();
  return static_cast<EventId>(events_.size() - 1);
}

bool StreamQueues::has(StreamId stream) const { return static_cast<std::size_t>(stream) < streams_.size(); }

bool StreamQueues::has(EventId event) const { return static_cast<std::size_t>(event) < events_.size(); }

bool StreamQueues::idle() const {
  return std::ranges::all_of(streams_, [](const auto& queue) { return queue.empty(); });
}

std::uint64_t StreamQueues::draw() { return random_bits(seed_, 0, drawn_++); }

bool StreamQueues::ready(const std::deque<Entry>& queue) {
  if (queue.empty()) return false;
  const Entry& next = queue.front();
  return next.what != Entry::What::wait || event(next.event).reached >= next.round;
}

Status StreamQueues::run_one(bool& any) {
  std::vector<std::deque<Entry>*> choices;
  for (std::deque<Entry>& queue : streams_)
    if (ready(queue)) choices.push_back(&queue);
  any = !choices.empty();
  if (!any) return ok_status();
  std::deque<Entry>& queue = *choices[draw() % choices.size()];
  const Entry entry = std::move(queue.front());
  queue.pop_front();
  if (entry.what == Entry::What::record) event(entry.event).reached = entry.round;
  return entry.what == Entry::What::task ? entry.task() : ok_status();
}

Status StreamQueues::put(StreamId stream, Entry entry) {
  queue(stream).push_back(std::move(entry));
  // A device begins at once, or later.
  bool any = true;
  for (std::uint64_t count = draw() % 4 == 0 ? draw() % 4 : 0; count > 0 && any; --count)
    PAGODA_RETURN_IF_ERROR(run_one(any));
  return ok_status();
}

Status StreamQueues::push(StreamId stream, Task task) {
  return put(stream, {.what = Entry::What::task, .task = std::move(task)});
}

Status StreamQueues::record(EventId id, StreamId stream) {
  return put(stream, {.what = Entry::What::record, .event = id, .round = ++event(id).recorded});
}

Status StreamQueues::wait(StreamId stream, EventId id) {
  return put(stream, {.what = Entry::What::wait, .event = id, .round = event(id).recorded});
}

Status StreamQueues::run_one() {
  bool any = true;
  PAGODA_RETURN_IF_ERROR(run_one(any));
  return any ? ok_status() : internal_error("streams wait for each other");
}

}  // namespace pagoda::device::emulated
