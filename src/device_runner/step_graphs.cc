#include "device_runner/step_graphs.h"

#include <algorithm>
#include <bit>

#include "base/log.h"
#include "base/strings.h"

namespace pagoda::device_runner {
namespace {

std::string describe(const StepBucket& bucket) {
  return concat(bucket.rows, " rows, ", std::int64_t{bucket.splits} * device::kSplitTokens, " tokens",
                bucket.alike ? "" : ", contexts of different lengths");
}

}  // namespace

// Generous estimates: the size of a graph of kernels was not measured on a GPU.
std::int64_t StepGraphs::planned_bytes(std::int32_t num_layers) const {
  constexpr std::int64_t kLaunchBytes = 4 * 1024, kLaunchesOfLayer = 12, kOtherLaunches = 16;
  return use_ == GraphUse::off
             ? 0
             : kMostGraphs * kLaunchBytes * (num_layers * kLaunchesOfLayer + kOtherLaunches);
}

// As vLLM's cudagraph_capture_sizes.
std::vector<std::int32_t> StepGraphs::rows_of_buckets(std::int32_t most) {
  std::vector<std::int32_t> all;
  for (std::int32_t rows = 1; rows < most; rows += rows < 8 ? rows : rows < 256 ? 8 : 16) all.push_back(rows);
  all.push_back(most);
  return all;
}

std::optional<StepBucket> StepGraphs::bucket_of(const StepLayout& step) const {
  if (use_ == GraphUse::off || !captures_ || !step.is_decode()) return std::nullopt;
  const std::vector<std::int32_t> rows = rows_of_buckets(limits_.rows);
  const auto fits = std::ranges::lower_bound(rows, step.num_rows());
  if (fits == rows.end()) return std::nullopt;
  std::int32_t longest = 0;
  std::int64_t all = 0;
  for (const std::int32_t position : step.positions()) {
    const std::int32_t splits = device::splits_of(position + 1);
    longest = std::max(longest, splits);
    all += splits;
  }
  const auto rounded = static_cast<std::int32_t>(std::bit_ceil(static_cast<std::uint32_t>(longest)));
  return StepBucket{.rows = *fits,
                    .splits = std::min(rounded, device::splits_of(limits_.context)),
                    .alike = 2 * all >= std::int64_t{longest} * step.num_rows()};
}

Status StepGraphs::run(DeviceOps& ops, const StepBucket& bucket, const std::function<Status()>& launch,
                       const std::function<WrittenMemory()>& written) {
  if (!captures_) return launch();
  auto found = graphs_.find(bucket);
  if (found != graphs_.end() && found->second.places != ops.places()) {
    PAGODA_RETURN_IF_ERROR(destroy(found));
    found = graphs_.end();
  }
  if (found == graphs_.end()) {
    const auto made = capture(ops, launch);
    if (!made) return made.error();
    const std::optional<device::GraphId>& id = *made;
    if (!id) return launch();
    if (graphs_.size() == kMostGraphs)
      PAGODA_RETURN_IF_ERROR(destroy(std::ranges::min_element(
          graphs_, {}, [](const Graphs::value_type& graph) { return graph.second.used; })));
    found = graphs_.emplace(bucket, Graph{.id = *id, .places = ops.places()}).first;
    ++stats_.captured;
    log_debug("device", concat("captured a graph for decode steps of ", describe(bucket)));
  }
  found->second.used = ++runs_;
  ++stats_.replayed;
  if (use_ == GraphUse::check) return replay_and_compare(found->second.id, bucket, launch, written());
  return device_->launch_graph(stream_, found->second.id);
}

Result<std::optional<device::GraphId>> StepGraphs::capture(DeviceOps& ops,
                                                           const std::function<Status()>& launch) {
  PAGODA_RETURN_IF_ERROR(device_->begin_capture(stream_));
  ops.begin_capture();
  const Status status = launch();
  const std::string refused = ops.end_capture();
  const auto graph = device_->end_capture(stream_);
  if (!graph) return status.ok() ? graph.error() : status;
  if (status.ok() && refused.empty()) return std::optional(*graph);
  PAGODA_RETURN_IF_ERROR(device_->destroy_graph(*graph));
  PAGODA_RETURN_IF_ERROR(status);
  log_info("device", concat("decode steps of this model are not captured: ", refused));
  captures_ = false;
  return std::optional<device::GraphId>();
}

// Also on a lost device: a library through which other devices communicate waits for the graphs that hold its
// calls.
Status StepGraphs::destroy(Graphs::iterator graph) {
  const device::GraphId id = graph->second.id;
  graphs_.erase(graph);
  const Status waited = device_->synchronize(stream_);  // it may still run
  const Status destroyed = device_->destroy_graph(id);
  return waited.ok() ? destroyed : waited;
}

Status StepGraphs::clear() {
  Status first;
  while (!graphs_.empty())
    if (Status status = destroy(graphs_.begin()); first.ok()) first = std::move(status);
  return first;
}

Status StepGraphs::replay_and_compare(device::GraphId graph, const StepBucket& bucket,
                                      const std::function<Status()>& launch, const WrittenMemory& memory) {
  const auto before = memory.read();
  if (!before) return before.error();
  PAGODA_RETURN_IF_ERROR(launch());
  const auto eager = memory.read();
  if (!eager) return eager.error();
  PAGODA_RETURN_IF_ERROR(memory.write(*before));
  PAGODA_RETURN_IF_ERROR(device_->launch_graph(stream_, graph));
  const auto replayed = memory.read();
  if (!replayed) return replayed.error();
  const std::string difference = memory.describe_difference(*eager, *replayed);
  if (difference.empty()) return ok_status();
  return internal_error(concat("--device-graphs check: the graph of ", describe(bucket), " writes ",
                               difference, " than its step does eagerly"));
}

}  // namespace pagoda::device_runner
