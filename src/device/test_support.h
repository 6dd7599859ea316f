#pragma once
// For tests of kernels: a device (test_device.h) with one stream, and arrays that are copied there and back.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "device/kernel_launches.h"
#include "device/test_device.h"
#include "kernels/backend.h"

namespace pagoda::device {

// The reference with which kernels are compared.
inline const KernelContext kReference = {.backend = Backend::reference};

class KernelBench {
 public:
  explicit KernelBench(std::uint64_t seed = 0) : KernelBench(emulated::EmulatedOptions{.seed = seed}) {}
  explicit KernelBench(const emulated::EmulatedOptions& options) {
    auto created = open_test_device(options);
    CHECK(created.has_value());
    device_ = *std::move(created);
    stream_ = *device_->create_stream();
  }

  template <class T>
  T* put(const std::vector<T>& values, std::string_view name = "input") {
    const std::size_t bytes = values.size() * sizeof(T);
    std::byte* const host = *device_->allocate_pinned(bytes + 1);
    if (bytes > 0) std::memcpy(host, values.data(), bytes);
    std::byte* const to = room(bytes, name);
    EXPECT_TRUE(device_->copy_in(stream_, to, host, bytes).ok());
    return reinterpret_cast<T*>(to);
  }
  template <class T>
  T* make(std::size_t count, std::string_view name = "output") {
    return reinterpret_cast<T*>(room(count * sizeof(T), name));
  }
  template <class T>
  std::vector<T> get(const T* from, std::size_t count) {
    std::byte* const host = *device_->allocate_pinned(count * sizeof(T) + 1);
    const Status copied =
        device_->copy_out(stream_, host, reinterpret_cast<const std::byte*>(from), count * sizeof(T));
    EXPECT_TRUE(copied.ok()) << copied.message();
    const Status ran = device_->synchronize(stream_);
    EXPECT_TRUE(ran.ok()) << ran.message();
    std::vector<T> values(count);
    if (count > 0) std::memcpy(values.data(), host, count * sizeof(T));
    return values;
  }
  KernelLaunches run() { return {*device_, stream_}; }
  Device& device() { return *device_; }
  StreamId stream() const { return stream_; }

 private:
  std::byte* room(std::size_t bytes, std::string_view name) {
    auto memory = device_->allocate(bytes > 0 ? bytes : 1, name);
    CHECK(memory.has_value());
    return *memory;
  }

  std::unique_ptr<Device> device_;
  StreamId stream_{};
};

}  // namespace pagoda::device
