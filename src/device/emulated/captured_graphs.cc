#include "device/emulated/captured_graphs.h"

#include <cstring>
#include <utility>

#include "base/strings.h"

namespace pagoda::device::emulated {

Status CapturedGraphs::begin(StreamId stream) {
  if (capture_) return internal_error("begin_capture() while a stream is captured");
  capture_.emplace(Capture{.stream = stream, .by = std::this_thread::get_id(), .tasks = {}});
  return ok_status();
}

Result<GraphId> CapturedGraphs::end(StreamId stream) {
  if (!captures(stream)) return internal_error("end_capture() of a stream that is not captured");
  const auto graph = static_cast<GraphId>(made_++);
  graphs_.emplace(graph, std::move(std::exchange(capture_, std::nullopt)->tasks));
  return graph;
}

Result<std::span<const CapturedGraphs::Task>> CapturedGraphs::tasks(GraphId graph) const {
  const auto found = graphs_.find(graph);
  if (found == graphs_.end()) return internal_error("launch_graph() of a graph that is none");
  return std::span<const Task>(found->second);
}

Status CapturedGraphs::destroy(GraphId graph) {
  return graphs_.erase(graph) == 1 ? ok_status() : internal_error("destroy_graph() of a graph that is none");
}

Status CapturedGraphs::allowed(std::string_view call) const {
  if (!capture_ || capture_->by != std::this_thread::get_id()) return ok_status();
  return internal_error(concat(call, " while a stream is captured"));
}

Status CapturedGraphs::not_named(const std::byte* memory, std::size_t bytes) const {
  const auto first = reinterpret_cast<std::uintptr_t>(memory);
  for (const auto& [graph, tasks] : graphs_)
    for (const Task& task : tasks)
      for (const std::uintptr_t word : task.words)
        if (word - first < bytes)
          return internal_error(concat("memory is freed that graph ", static_cast<std::int32_t>(graph),
                                       " still names, for ", task.name));
  return ok_status();
}

std::vector<std::uintptr_t> words_of(std::span<const std::byte> args) {
  std::vector<std::uintptr_t> words(args.size() / sizeof(std::uintptr_t));
  if (!words.empty()) std::memcpy(words.data(), args.data(), words.size() * sizeof(std::uintptr_t));
  return words;
}

}  // namespace pagoda::device::emulated
