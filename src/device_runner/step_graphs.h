#pragma once
// StepGraphs: decode steps as graphs of the device. The launches of a step in a bucket
// (kernels/device/step_bucket.h) are captured at the first such step, and replayed for all others. Everything
// that differs between steps is read from DeviceOps::places(); a graph whose places have changed is captured
// again. Not here: the sampler's launches and the step's copies, which are not part of a graph. Invariant: no
// bit of a sequence's results depends on whether its step was replayed. Call clear() before freeing memory
// that a graph names. Errors: the device's; internal: in check mode, a replayed step writes other bytes than
// an eager one. Threads: the device's caller. Owner: DeviceModelRunner.
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "device/device.h"
#include "device_runner/written_memory.h"
#include "kernels/device/device_ops.h"
#include "kernels/device/step_bucket.h"
#include "model_runner/step_layout.h"

namespace pagoda::device_runner {

// check: each step of a bucket also runs eagerly, from the same memory, and must write the same bytes. Slow.
enum class GraphUse : std::uint8_t { off, automatic, check };

class StepGraphs {
 public:
  // Maximum number of graphs; beyond it the least recently used one is destroyed.
  static constexpr std::int32_t kMostGraphs = 32;
  struct Limits {
    std::int32_t rows = 0, context = 0;  // maximum of a step, and of a sequence
  };
  StepGraphs(device::Device& device, device::StreamId stream, GraphUse use, const Limits& limits)
      : device_(&device), stream_(stream), use_(use), limits_(limits) {}

  // The bucket of a step without padding: its rows are rounded up to one of rows_of_buckets(), and the splits
  // of its longest context to a power of two. nullopt: the step is eager. A step has a bucket only if each of
  // its sequences has one row, which is drawn from:
  //   * a step with a part of a prompt takes longer than its launches; draft tokens need several rows per
  //   sequence;
  //   * vectors are computed from prompts; if a mask leaves one token, there is no row of logits;
  //   * a sequence's own rotations are computed by separate launches;
  //   * a model whose layers have inputs by token (Gemma 3n) copies values in the middle of a step, which
  //   ends its
  //     first capture: all of its steps are eager from then on.
  std::optional<StepBucket> bucket_of(const StepLayout& step) const;
  // The numbers of rows of buckets, ascending; the last one is `most`.
  static std::vector<std::int32_t> rows_of_buckets(std::int32_t most);

  // Executes what `launch` enqueues, for a step of this bucket whose inputs `ops` has copied. `written`: the
  // memory that it may write.
  Status run(DeviceOps& ops, const StepBucket& bucket, const std::function<Status()>& launch,
             const std::function<WrittenMemory()>& written);
  // Bytes that a device may need for the maximum number of graphs, for a model with this many layers.
  std::int64_t planned_bytes(std::int32_t num_layers) const;
  bool compares() const { return use_ == GraphUse::check; }
  // Destroys all graphs. None of them may be running.
  Status clear();

  struct Stats {
    std::int64_t captured = 0, replayed = 0;  // graphs, and steps
  };
  const Stats& stats() const { return stats_; }

 private:
  struct Graph {
    device::GraphId id{};
    std::vector<const void*> places;
    std::uint64_t used = 0;
  };
  using Graphs = std::map<StepBucket, Graph>;
  // nullopt: this model's steps cannot be captured.
  Result<std::optional<device::GraphId>> capture(DeviceOps& ops, const std::function<Status()>& launch);
  Status destroy(Graphs::iterator graph);
  Status replay_and_compare(device::GraphId graph, const StepBucket& bucket,
                            const std::function<Status()>& launch, const WrittenMemory& memory);

  device::Device* device_;
  device::StreamId stream_;
  GraphUse use_;
  Limits limits_;
  bool captures_ = true;
  Graphs graphs_;
  std::uint64_t runs_ = 0;
  Stats stats_;
};

}  // namespace pagoda::device_runner
