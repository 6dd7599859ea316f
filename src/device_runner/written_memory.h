#pragma once
// WrittenMemory: the device memory that a step may write, read and restored as a whole, to compare two ways
// of running the same step. Slow: all of it is copied through a small piece of pinned memory. Errors: the
// device's. Threads: the device's caller.
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "device/device.h"

namespace pagoda::device_runner {

class WrittenMemory {
 public:
  WrittenMemory(device::Device& device, device::StreamId stream) : device_(&device), stream_(stream) {}
  void add(std::string name, std::byte* data, std::int64_t bytes) {
    if (bytes > 0) parts_.push_back({std::move(name), {data, static_cast<std::size_t>(bytes)}});
  }

  // Its content once all work in the stream has run, one part after the other.
  Result<std::vector<std::byte>> read() const;
  Status write(std::span<const std::byte> content) const;
  // "other bytes into the logits (at 12 of 64)"; empty if they are equal.
  std::string describe_difference(std::span<const std::byte> one, std::span<const std::byte> other) const;

 private:
  struct Part {
    std::string name;
    std::span<std::byte> memory;
  };
  enum class Way : std::uint8_t { out, in };
  Status copy(Way way, std::span<std::byte> content) const;
  std::size_t size() const;

  device::Device* device_;
  device::StreamId stream_;
  std::vector<Part> parts_;
};

}  // namespace pagoda::device_runner
