#pragma once
// StepGraphs: decode steps as graphs of the device. The launches of a step of a bucket
// (kernels/device/step_bucket.h) are captured when the first such step comes, and replayed for all others.
// All that differs between steps is read from DeviceOps::places(); a graph whose places have changed is
// captured again. Not here: the sampler's launches and the step's copies, which are no part of a graph.
// Invariant: no bit of a sequence's results depends on whether its step was replayed. Whoever frees memory
// that a graph names calls clear() first. Errors: the device's; internal: in check mode, a replayed step
// writes other bytes than an eager one. Threads: the device's caller. Owner: DeviceModelRunner.
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

// check: each step of a bucket runs eagerly, too, from the same memory, and writes the same. Slow.
enum class GraphUse : std::uint8_t { off, automatic, check };

class StepGraphs {
 public:
  // So many live at a time; then the one that was not used for longest goes.
  static constexpr std::int32_t kMostGraphs = 32;
  struct Limits {
    std::int32_t rows = 0, context = 0;  // the most of a step, and of a sequence
  };
  StepGraphs(device::Device& device, device::StreamId stream, GraphUse use, const Limits& limits)
      : device_(&device), stream_(stream), use_(use), limits_(limits) {}

  // The bucket of a step, which is not padded yet: of as many rows as rows_of_buckets() has, or more, and of
  // as many splits as its longest context has, rounded up to a power of two. Null: the step is eager. Only a
  // step whose sequences have one row each, which is drawn from, has a bucket:
  //   * with a part of a prompt it takes longer than its launches; drafts have several rows a sequence;
  //   * vectors are made of prompts; where a mask leaves one token there is no row of logits;
  //   * rotations of a sequence's own are computed by launches of their own;
  //   * a model whose layers have inputs by token (Gemma 3n) brings values in the middle of a step, which
  //   ends
  //     its first capture: all of its steps are eager from then on.
  std::optional<StepBucket> bucket_of(const StepLayout& step) const;
  // The rows that buckets have, ascending; the last are `most`.
  static std::vector<std::int32_t> rows_of_buckets(std::int32_t most);

  // Does what `launch` puts into the stream, for a step of this bucket that `ops` has brought. `written`: the
  // memory that it may write.
  Status run(DeviceOps& ops, const StepBucket& bucket, const std::function<Status()>& launch,
             const std::function<WrittenMemory()>& written);
  // Bytes that a device may take for as many graphs as there may be, of a model with so many layers.
  std::int64_t planned_bytes(std::int32_t num_layers) const;
  bool compares() const { return use_ == GraphUse::check; }
  // Destroys all graphs. Nothing of them runs.
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
  // Null: this model's steps cannot be captured.
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
