#pragma once
// CapturedGraphs: the captured streams of an emulated device (Device::begin_capture). A graph's tasks have
// the arguments with which they were captured, and run in the order of their capture. The memory that they
// name is known as far as their arguments contain its address, so that memory which a graph still names is
// not freed. Errors: internal, if a capture or a graph is used in a way that CUDA rejects. Threads: one at a
// time. Owner: EmulatedDevice.
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/status.h"
#include "device/device.h"
#include "device/emulated/stream_queues.h"

namespace pagoda::device::emulated {

class CapturedGraphs {
 public:
  struct Task {
    std::string name;  // the kernel's, or "a copy"
    StreamQueues::Task run;
    std::vector<std::uintptr_t> words;  // words_of() its arguments
  };

  Status begin(StreamId stream);
  Result<GraphId> end(StreamId stream);
  Result<std::span<const Task>> tasks(GraphId graph) const;
  Status destroy(GraphId graph);

  bool captures(StreamId stream) const { return capture_ && capture_->stream == stream; }
  void add(Task task) { capture_->tasks.push_back(std::move(task)); }
  // Returns an error if this call is not allowed now; ok if this thread captures nothing.
  Status allowed(std::string_view call) const;
  // Returns an error if a graph names any of these bytes.
  Status not_named(const std::byte* memory, std::size_t bytes) const;

 private:
  struct Capture {
    StreamId stream = {};
    std::thread::id by;
    std::vector<Task> tasks;
  };
  std::optional<Capture> capture_;
  std::map<GraphId, std::vector<Task>> graphs_;
  std::int32_t made_ = 0;
};

// Each 8 bytes of a kernel's arguments as a number: every pointer is one of them.
std::vector<std::uintptr_t> words_of(std::span<const std::byte> args);

}  // namespace pagoda::device::emulated
