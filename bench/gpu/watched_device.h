#pragma once
// WatchedDevice: a device that counts the calls made to it, and measures the host's time in them. All other
// calls are passed on. Threads: as the device. Owner: the code that measures; it owns the device.
#include <memory>
#include <utility>

#include "base/clock.h"
#include "device/device.h"

namespace pagoda::device {

struct DeviceCalls {
  std::int64_t launches = 0, copies = 0, waits = 0, allocations = 0;
  std::uint64_t copied_bytes = 0;
  TimeNs launching = 0, copying = 0, waiting = 0;
};

class WatchedDevice final : public Device {
 public:
  explicit WatchedDevice(std::unique_ptr<Device> device) : device_(std::move(device)) {}
  DeviceCalls take_calls() { return std::exchange(calls_, {}); }

  Status launch(StreamId stream, const Kernel& kernel, const LaunchShape& shape, const void* args) override {
    ++calls_.launches;
    return timed(calls_.launching, [&] { return device_->launch(stream, kernel, shape, args); });
  }
  Status launch_graph(StreamId stream, GraphId graph) override {
    ++calls_.launches;
    return timed(calls_.launching, [&] { return device_->launch_graph(stream, graph); });
  }
  Status multiply(StreamId stream, const ProductArgs& args) override {
    ++calls_.launches;
    return timed(calls_.launching, [&] { return device_->multiply(stream, args); });
  }
  Status copy_in(StreamId stream, std::byte* to, const std::byte* pinned, std::size_t bytes) override {
    return copied(bytes, [&] { return device_->copy_in(stream, to, pinned, bytes); });
  }
  Status copy_out(StreamId stream, std::byte* pinned, const std::byte* from, std::size_t bytes) override {
    return copied(bytes, [&] { return device_->copy_out(stream, pinned, from, bytes); });
  }
  Status copy(StreamId stream, std::byte* to, const std::byte* from, std::size_t bytes) override {
    return copied(bytes, [&] { return device_->copy(stream, to, from, bytes); });
  }
  Status synchronize(StreamId stream) override {
    ++calls_.waits;
    return timed(calls_.waiting, [&] { return device_->synchronize(stream); });
  }
  Status synchronize_event(EventId event) override {
    ++calls_.waits;
    return timed(calls_.waiting, [&] { return device_->synchronize_event(event); });
  }
  Result<std::byte*> allocate(std::size_t bytes, std::string_view name) override {
    ++calls_.allocations;
    return device_->allocate(bytes, name);
  }
  Result<std::byte*> allocate_pinned(std::size_t bytes) override {
    ++calls_.allocations;
    return device_->allocate_pinned(bytes);
  }

  std::string describe() const override { return device_->describe(); }
  Status lost() const override { return device_->lost(); }
  std::span<const Kernel> kernels() const override { return device_->kernels(); }
  bool has_clusters() const override { return device_->has_clusters(); }
  bool has_warpgroups() const override { return device_->has_warpgroups(); }
  bool launch_early(bool early) override { return device_->launch_early(early); }
  Status free(std::byte* memory) override { return device_->free(memory); }
  std::size_t free_bytes() const override { return device_->free_bytes(); }
  Status free_pinned(std::byte* memory) override { return device_->free_pinned(memory); }
  std::size_t granule() const override { return device_->granule(); }
  Result<std::byte*> reserve(std::size_t bytes) override { return device_->reserve(bytes); }
  Status release(std::byte* addresses) override { return device_->release(addresses); }
  Result<PhysicalId> create_physical(std::size_t bytes) override { return device_->create_physical(bytes); }
  Status destroy_physical(PhysicalId memory) override { return device_->destroy_physical(memory); }
  Status map(std::byte* address, PhysicalId memory) override { return device_->map(address, memory); }
  Status set_access(std::byte* address, std::size_t bytes) override {
    return device_->set_access(address, bytes);
  }
  Status unmap(std::byte* address, std::size_t bytes) override { return device_->unmap(address, bytes); }
  Result<Window> create_window(std::size_t bytes) override { return device_->create_window(bytes); }
  Result<std::byte*> open_window(const WindowHandle& handle) override { return device_->open_window(handle); }
  Status open_collectives() override { return device_->open_collectives(); }
  Result<GroupName> name_group() override { return device_->name_group(); }
  Status join_group(const GroupName& name, std::int32_t rank, std::int32_t size,
                    std::chrono::milliseconds timeout) override {
    return device_->join_group(name, rank, size, timeout);
  }
  Status sum_over_group(StreamId stream, float* data, std::int64_t count) override {
    return device_->sum_over_group(stream, data, count);
  }
  Status gather_of_group(StreamId stream, const float* own, float* all, std::int64_t count) override {
    return device_->gather_of_group(stream, own, all, count);
  }
  std::uint32_t exchanges_done() const override { return device_->exchanges_done(); }
  Status group_error() override { return device_->group_error(); }
  void leave_group(const Status& why) override { device_->leave_group(why); }
  Result<StreamId> create_stream() override { return device_->create_stream(); }
  Result<EventId> create_event() override { return device_->create_event(); }
  Status record(EventId event, StreamId stream) override { return device_->record(event, stream); }
  Status wait(StreamId stream, EventId event) override { return device_->wait(stream, event); }
  Status begin_capture(StreamId stream) override { return device_->begin_capture(stream); }
  Result<GraphId> end_capture(StreamId stream) override { return device_->end_capture(stream); }
  Status destroy_graph(GraphId graph) override { return device_->destroy_graph(graph); }
  Status open_products() override { return device_->open_products(); }
  Status start_profile() override { return device_->start_profile(); }
  Result<std::vector<KernelTime>> end_profile() override { return device_->end_profile(); }

 private:
  template <class Call>
  Status timed(TimeNs& sum, const Call& call) {
    const TimeNs before = clock_.now();
    Status status = call();
    sum += clock_.now() - before;
    return status;
  }
  template <class Call>
  Status copied(std::size_t bytes, const Call& call) {
    ++calls_.copies;
    calls_.copied_bytes += bytes;
    return timed(calls_.copying, call);
  }

  std::unique_ptr<Device> device_;
  SteadyClock clock_;
  DeviceCalls calls_;
};

}  // namespace pagoda::device
