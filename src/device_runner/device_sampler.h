#pragma once
// DeviceSampler: logits of a step's rows on the device, and what is drawn from them or said of them, by the
// kernels of sampling.cuh and scores.cuh; by the host's sampler where those give too little
// (draws_on_device). All of its memory is taken at start. Invariant: a row's candidates depend on its own
// logits and parameters alone. Errors: the device's. Threads: the device's caller.
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
    std::int32_t max_rows = 0;  // that are drawn from in a step, and more are in several goes
  };
  // Borrows the device and the arena.
  static Result<std::unique_ptr<DeviceSampler>> create(device::Device& device, device::StreamId stream,
                                                       device::StepArena& arena, const Shape& shape);

  // Rows of logits that exist at the same time, and of those that are only scored.
  std::int64_t max_rows() const { return shape_.max_rows; }
  // So many rows are scored at a time, of a sampler of `max_rows`.
  static std::int64_t prompt_rows_at_once(std::int64_t max_rows);
  // Borrowed; null: none. Each launch is noted as the end of the step.
  void set_clock(StepClock* clock) { clock_ = clock; }
  float* logits() { return logits_.data(); }  // [max_rows, vocabulary]
  std::int64_t size_bytes() const;

  // Launches of two steps may be in the stream. Each uses a slot of its own from then on: 0 or 1.
  void use(std::size_t slot) { slot_ = slot; }
  // Waits, and fills in what is drawn: row i from row i of logits(), which it changes.
  Status draw(std::span<const DrawnRow> rows);
  // The same for prompts' rows, which it does not change.
  Status score(std::span<const PromptRow> rows);

  // Whether draw() needs one launch for these, and nothing of the host.
  bool draws_at_once(std::span<const DrawnRow> rows) const;
  // Then draw() in three parts: what the launches read is put into the arena; they go into the stream; and,
  // once that has run, results are filled in. The rows stay where they are until then.
  Status plan(std::span<const DrawnRow> rows);
  Status launch();
  void take(std::size_t slot);
  // The tokens that were drawn, and where among them that of the rows' sequence is, between the two halves.
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
  device::DeviceArray<float> logits_, copies_;  // [rows, vocabulary]; copies_: behind masks, before edits
  device::DeviceArray<std::int32_t> best_, drawn_;
  device::DeviceArray<std::uint64_t> groups_;  // [rows, token_groups]
  device::DeviceArray<float> normalizers_;
  device::DeviceArray<device::TokenScore> scores_;
  device::DeviceArray<device::ScoredToken> top_;
  device::PinnedArray<float> host_logits_;  // [kHostRows, vocabulary]
  TokenCounts counts_;
  struct Slot {
    DrawPlan plan;
    device::PinnedArray<std::byte> results;  // a launch's
    DrawResults taken;                       // they lie in it
    std::vector<std::int32_t> places;        // by sequence: its token's
  };
  DrawPlan& plan() { return slots_[slot_].plan; }
  const DrawPlan& plan() const { return slots_[slot_].plan; }
  // The launches to come have these.
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
