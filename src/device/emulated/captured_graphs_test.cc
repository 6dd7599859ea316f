// Goal: a captured stream's work runs when its graph is launched, as often as that, with the arguments that
// it was captured with; and what CUDA forbids while a stream is captured, or while a graph lives, is a fault.
#include "device/emulated/captured_graphs.h"

#include <gtest/gtest.h>

#include <functional>

#include "device/emulated/emulated_device.h"
#include "device/kernel_launches.h"

namespace pagoda::device::emulated {
namespace {

constexpr std::int32_t kWidth = 8;
constexpr std::size_t kGraphBytes = kWidth * sizeof(float);

// y += x, by way of the device.
struct GraphWork {
  explicit GraphWork(std::uint64_t seed = 0) : device(*EmulatedDevice::create({.seed = seed})) {
    stream = *device->create_stream();
    other = *device->create_stream();
    event = *device->create_event();
    for (float** const array : {&x, &y})
      *array = reinterpret_cast<float*>(*device->allocate(kGraphBytes, array == &x ? "x" : "y"));
    for (float** const array : {&host_x, &host_y})
      *array = reinterpret_cast<float*>(*device->allocate_pinned(kGraphBytes));
    set(0, 0);
  }
  static std::byte* bytes(float* memory) { return reinterpret_cast<std::byte*>(memory); }
  void set(float in, float out) {
    std::fill_n(host_x, kWidth, in);
    std::fill_n(host_y, kWidth, out);
  }
  Status put() {
    PAGODA_RETURN_IF_ERROR(device->copy_in(stream, bytes(x), bytes(host_x), kGraphBytes));
    PAGODA_RETURN_IF_ERROR(KernelLaunches(*device, stream).add_rows({.x = x, .y = y, .width = kWidth}, 1));
    return device->copy_out(stream, bytes(host_y), bytes(y), kGraphBytes);
  }
  GraphId capture() {
    EXPECT_TRUE(device->begin_capture(stream).ok());
    EXPECT_TRUE(put().ok());
    return *device->end_capture(stream);
  }
  Status clear() { return device->copy_in(stream, bytes(y), bytes(host_y), kGraphBytes); }
  std::unique_ptr<EmulatedDevice> device;
  StreamId stream, other;
  EventId event;
  float *x = nullptr, *y = nullptr, *host_x = nullptr, *host_y = nullptr;
};

TEST(CapturedGraphs, RunAsOftenAsTheyAreLaunched) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    GraphWork work(seed);
    ASSERT_TRUE(work.clear().ok());
    ASSERT_TRUE(work.device->synchronize(work.stream).ok());
    work.set(5, 7);
    const GraphId graph = work.capture();
    ASSERT_TRUE(work.device->synchronize(work.stream).ok());
    EXPECT_EQ(work.host_y[0], 7);  // nothing has run
    for (int i = 1; i <= 3; ++i) {
      ASSERT_TRUE(work.device->launch_graph(work.stream, graph).ok());
      ASSERT_TRUE(work.device->synchronize(work.stream).ok());
      EXPECT_EQ(work.host_y[kWidth - 1], static_cast<float>(5 * i));
    }
    work.set(2, 0);  // host memory is read when the graph runs
    ASSERT_TRUE(work.device->launch_graph(work.stream, graph).ok());
    ASSERT_TRUE(work.device->synchronize(work.stream).ok());
    EXPECT_EQ(work.host_y[0], 17);
  }
}

TEST(CapturedGraphs, CapturesForbidWhatNeedsTheHost) {
  using Call = std::function<Status(GraphWork&)>;
  const auto of = [](auto result) { return result ? ok_status() : result.error(); };
  const std::pair<const char*, Call> calls[] = {
      {"allocate() while", [&](GraphWork& work) { return of(work.device->allocate(8, "more")); }},
      {"free() while", [](GraphWork& work) { return work.device->free(GraphWork::bytes(work.x)); }},
      {"allocate_pinned() while", [&](GraphWork& work) { return of(work.device->allocate_pinned(8)); }},
      {"free_pinned() while",
       [](GraphWork& work) { return work.device->free_pinned(GraphWork::bytes(work.host_x)); }},
      {"reserve() while", [&](GraphWork& work) { return of(work.device->reserve(kDeviceGranule)); }},
      {"create_physical() while",
       [&](GraphWork& work) { return of(work.device->create_physical(kDeviceGranule)); }},
      {"synchronize() while", [](GraphWork& work) { return work.device->synchronize(work.stream); }},
      {"synchronize() while", [](GraphWork& work) { return work.device->synchronize(work.other); }},
      {"record() in", [](GraphWork& work) { return work.device->record(work.event, work.stream); }},
      {"wait() in", [](GraphWork& work) { return work.device->wait(work.stream, work.event); }},
      {"begin_capture() while", [](GraphWork& work) { return work.device->begin_capture(work.other); }},
      {"launch_graph() while",
       [](GraphWork& work) { return work.device->launch_graph(work.other, GraphId{}); }},
      {"start_profile() while", [](GraphWork& work) { return work.device->start_profile(); }},
      {"open_products() while", [](GraphWork& work) { return work.device->open_products(); }},
      {"end_capture() of", [&](GraphWork& work) { return of(work.device->end_capture(work.other)); }}};
  for (const auto& [said, call] : calls) {
    SCOPED_TRACE(said);
    GraphWork work;
    ASSERT_TRUE(work.device->begin_capture(work.stream).ok());
    ASSERT_TRUE(work.put().ok());
    const Status status = call(work);
    EXPECT_FALSE(status.ok());
    EXPECT_TRUE(status.message().starts_with(said)) << status.message();
    EXPECT_FALSE(work.device->end_capture(work.stream));  // it sticks
  }
}

TEST(CapturedGraphs, OtherStreamsGoOn) {
  GraphWork work;
  work.set(0, 3);
  ASSERT_TRUE(work.device->begin_capture(work.stream).ok());
  ASSERT_TRUE(
      work.device->copy_in(work.other, GraphWork::bytes(work.y), GraphWork::bytes(work.host_y), kGraphBytes)
          .ok());
  ASSERT_TRUE(work.device->record(work.event, work.other).ok());
  ASSERT_TRUE(work.put().ok());
  const auto graph = work.device->end_capture(work.stream);
  ASSERT_TRUE(graph.has_value());
  ASSERT_TRUE(work.device->wait(work.stream, work.event).ok());
  work.set(1, 0);
  // The other stream's copy may read host_y as it was, or as it is now: so it is 3 or 0.
  ASSERT_TRUE(work.device->launch_graph(work.stream, *graph).ok());
  ASSERT_TRUE(work.device->synchronize(work.stream).ok());
  EXPECT_TRUE(work.host_y[0] == 4 || work.host_y[0] == 1) << work.host_y[0];
}

TEST(CapturedGraphs, WhatTheyNameIsNotFreed) {
  const auto frees = [](GraphWork& work, const auto& call) {
    const GraphId graph = work.capture();
    const Status status = call(work);
    EXPECT_NE(status.message().find("that graph 0 still names, for "), std::string::npos) << status.message();
    EXPECT_FALSE(work.device->destroy_graph(graph).ok());  // it sticks
  };
  GraphWork first, second;
  frees(first, [](GraphWork& work) { return work.device->free(GraphWork::bytes(work.y)); });
  frees(second, [](GraphWork& work) { return work.device->free_pinned(GraphWork::bytes(work.host_x)); });

  GraphWork addresses;
  addresses.x = reinterpret_cast<float*>(*addresses.device->reserve(kDeviceGranule));
  frees(addresses, [&](GraphWork& work) { return work.device->release(GraphWork::bytes(work.x)); });

  GraphWork work;
  std::byte* const free = *work.device->allocate(kGraphBytes, "of no graph");
  const GraphId graph = work.capture();
  EXPECT_TRUE(work.device->free(free).ok());
  EXPECT_TRUE(work.device->destroy_graph(graph).ok());
  EXPECT_TRUE(work.device->free(GraphWork::bytes(work.y)).ok());
  EXPECT_FALSE(work.device->launch_graph(work.stream, graph).ok());
}

}  // namespace
}  // namespace pagoda::device::emulated
