#pragma once
// DeviceSampler: the logits of a step's rows on the device, and draws and log-probabilities computed from
// them by the kernels of sampling.cuh and scores.cuh; or by the host's sampler if those do not suffice
// (draws_on_device). All of its memory is allocated at startup. Invariant: a row's candidates depend only on
// its own logits and parameters. Errors: the device's. Threads: the device's caller.
#include <array>
#include <memory>

#include "device/device_array.h"
#include "device/kernel_launches.h"
#include "device/step_arena.h"
#include "device_runner/device_sampling.h"
#include "device_runner/step_clock.h"
#include "device_runner/token_counts.h"

namespace pagoda::device_runner {

class DeviceSampler {
 public:
  struct Shape {
    std::int32_t vocab_size = 0, max_num_seqs = 0;
    std::int32_t max_rows = 0;  // rows drawn from at once; more rows take several rounds
  };
  // Borrows the device and the arena.
  static Result<std::unique_ptr<DeviceSampler>> create(device::Device& device, device::StreamId stream,
                                                       device::StepArena& arena, const Shape& shape);

  // Maximum number of rows of logits at the same time, including rows that are only scored.
  std::int64_t max_rows() const { return shape_.max_rows; }
  // Number of rows scored at a time by a sampler of `max_rows`.
  static std::int64_t prompt_rows_at_once(std::int64_t max_rows);
  // Borrowed; null: none. Each launch records the end of the step.
  void set_clock(StepClock* clock) { clock_ = clock; }
  float* logits() { return logits_.data(); }  // [max_rows, vocabulary]
  std::int64_t size_bytes() const;

  // Launches of two steps may be enqueued. From this call on they use slot 0 or 1.
  void use(std::size_t slot) { slot_ = slot; }
  // Waits, and fills in the draws: row i from row i of logits(), which is modified.
  Status draw(std::span<const DrawnRow> rows);
  // Likewise for prompts' rows; logits() is not modified.
  Status score(std::span<const PromptRow> rows);

  // True if draw() needs only one launch for these rows, and no work on the host.
  bool draws_at_once(std::span<const DrawnRow> rows) const;
  // draw() in three parts for such rows: plan() puts the arguments of the launches into the arena, launch()
  // enqueues the launches, and take() fills in the results once they have run. The rows must stay in place
  // until then.
  Status plan(std::span<const DrawnRow> rows);
  Status launch();
  void take(std::size_t slot);
  // Between launch() and take(): the drawn tokens, and the index among them of a sequence's token.
  const std::int32_t* drawn() const { return drawn_.data(); }
  std::int32_t place_of(std::size_t slot, std::int32_t sequence) const {
    return slots_[slot].places[static_cast<std::size_t>(sequence)];
  }

 private:
  DeviceSampler(device::Device& device, device::StreamId stream, device::StepArena& arena,
                const Shape& shape);
  Status reserve();
  Result<std::span<const float>> fetch(std::int64_t row, std::size_t place);
  void begin();
  bool is_full(std::int32_t candidates) const;
  Status put_arguments();
  Status launch_and_take();

  device::Device& device_;
  device::StreamId stream_;
  device::StepArena& arena_;
  Shape shape_;
  device::DeviceArray<float> logits_, copies_;  // copies_: after masks, before edits
  device::DeviceArray<std::int32_t> best_, drawn_;
  device::DeviceArray<std::uint64_t> groups_;  // [rows, token_groups]
  device::DeviceArray<float> normalizers_;
  device::DeviceArray<device::TokenScore> scores_;
  device::DeviceArray<device::ScoredToken> top_;
  device::PinnedArray<float> host_logits_;  // [kHostRows, vocabulary]
  TokenCounts counts_;
  struct Slot {
    DrawPlan plan;
    device::PinnedArray<std::byte> results;  // those of a launch
    DrawResults taken;                       // in `results`
    std::vector<std::int32_t> places;        // by sequence: the index of its token
  };
  DrawPlan& plan() { return slots_[slot_].plan; }
  const DrawPlan& plan() const { return slots_[slot_].plan; }
  // The arguments of the next launches.
  struct Arguments {
    device::CountTokensArgs count;
    device::EditLogitsArgs edit;
    device::SampleRowsArgs sample;
    device::ScoreRowsArgs score;
  };
  Arguments arguments_;
  std::array<Slot, 2> slots_;
  std::size_t slot_ = 0;
  Sampler sampler_;
  StepClock* clock_ = nullptr;
};

}  // namespace pagoda::device_runner
