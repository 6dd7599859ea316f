#pragma once
// DeviceOps: what the ops of a context on a device share: the device and its stream, the memory of weights
// and activations, the image of the step, and the first error, which ops cannot return (take_status()). Ops
// only launch: nothing waits inside a step, and nothing is decided by what it computes. Rooms for what lies
// between two kernels grow when a step is larger than any before. Not here: the ops (ops.h), the KV cache,
// who swaps and copies. Threads: the device's caller. Owner: the runner; it outlives the model.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "device/device_array.h"
#include "device/kernel_launches.h"
#include "device/layer_launches.h"
#include "device/step_arena.h"
#include "kernels/device/device_part.h"
#include "kernels/paged_attention.h"
#include "kernels/sequence_state.h"
#include "tensor/tensor_view.h"

namespace pagoda {

class DeviceOps {
 public:
  struct Options {
    device::Element weights = device::Element::bf16;  // f32 or bf16, where they do not stay quantised
    bool tiles = true;                                // products by tiles, where rows are made for them
  };
  DeviceOps(device::Device& device, device::StreamId stream, device::StepArena& arena, const Options& options)
      : device_(device),
        stream_(stream),
        arena_(arena),
        options_(options),
        launches_(device, stream),
        layers_(device, stream) {}

  const Options& options() const { return options_; }
  std::int64_t size_bytes() const { return bytes_; }

  // Memory for as long as this object.
  Result<std::byte*> allocate(std::int64_t bytes, std::string_view name);
  Result<std::byte*> place(std::span<const std::byte> values, std::string_view name);
  // The rows of these matrices one below the other, cut where their element types change; in f32, whatever
  // they are, if `exact`. `bias`: of all rows, or empty.
  Result<std::vector<DevicePart>> place_matrix(std::span<const TensorView> views, std::span<const float> bias,
                                               bool exact);
  // A table of rows; element_of() says what they have become.
  Result<TensorView> place_table(const TensorView& table);
  device::Element element_of(const TensorView& table) const;

  // A step begins, whose image was copied to `there`. The arena has begun, too.
  void begin_step(std::span<const std::int32_t> image, const std::int32_t* there);
  // The device's copy of these values: the image's, or one that is made now.
  template <class T>
  const T* there(std::span<const T> values) {
    const std::span<const std::byte> bytes = std::as_bytes(values);
    if (!image_.empty() && bytes.data() >= image_.data() &&
        bytes.data() + bytes.size() <= image_.data() + image_.size())
      return reinterpret_cast<const T*>(image_there_ + (bytes.data() - image_.data()));
    auto put = arena_.put(values);
    if (put) return *put;
    keep(put.error());
    return nullptr;
  }
  template <class T>
  const T* there(const std::vector<T>& values) {
    return there(std::span<const T>(values));
  }

  // The rows of a KV group's sequences; brought there once a step.
  struct Sequences {
    const device::SequenceRows* sequences = nullptr;
    const std::int32_t* of_rows = nullptr;  // by row of the batch
    std::int64_t num_rows = 0;
  };
  Sequences show(std::span<const AttentionSequence> sequences);
  // A layer's states: `count` pieces from `first` on.
  device::StatesArgs show(const LayerStates& states, std::int32_t first, std::int32_t count);

  // Room for so many floats, which the next call for the same room may overwrite.
  enum class Room : std::uint8_t {
    rows,
    products,
    rounded,
    gathered,
    choices,
    weights,
    entered,
    inner,
    count
  };
  float* room(Room which, std::int64_t floats);

  // The first error is kept.
  void keep(const Status& status) {
    if (status_.ok()) status_ = status;
  }
  Status take_status() { return std::exchange(status_, ok_status()); }

  device::KernelLaunches& launches() { return launches_; }
  device::LayerLaunches& layers() { return layers_; }

 private:
  Status send(std::byte* to, std::span<const std::byte> values);
  Result<const std::byte*> place_rows(std::span<const TensorView> views, device::Element element);
  device::Element element_for(std::span<const TensorView> views, bool exact) const;

  device::Device& device_;
  device::StreamId stream_;
  device::StepArena& arena_;
  Options options_;
  device::KernelLaunches launches_;
  device::LayerLaunches layers_;
  std::vector<device::DeviceArray<std::byte>> arrays_;
  std::array<device::DeviceArray<float>, static_cast<std::size_t>(Room::count)> rooms_;
  device::PinnedArray<std::byte> stage_;
  std::int64_t bytes_ = 0;
  std::vector<std::pair<const std::byte*, device::Element>> tables_;
  std::span<const std::byte> image_;
  const std::byte* image_there_ = nullptr;
  std::vector<std::pair<const AttentionSequence*, Sequences>> shown_;
  Status status_;
};

}  // namespace pagoda
