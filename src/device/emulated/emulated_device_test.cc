// Goal: what the emulated device is there to find, it finds; and it finds nothing where nothing is wrong.
// Method: pairs of kernels and of orders of work, of which one has a fault.
#include "device/emulated/emulated_device.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "device/emulated/planted_kernels.h"
#include "device/emulated/register_file.h"
#include "device/kernel_table.h"

namespace pagoda::device::emulated {
namespace {

constexpr std::uint32_t kThreads = 64;

std::unique_ptr<EmulatedDevice> open_device(const EmulatedOptions& options = {}) {
  auto device = EmulatedDevice::create(options);
  CHECK(device.has_value());
  return *std::move(device);
}

template <class T>
T* pinned(Device& device, std::size_t count) {
  auto memory = device.allocate_pinned(count * sizeof(T));
  CHECK(memory.has_value());
  return reinterpret_cast<T*>(*memory);
}

std::byte* bytes_of(void* memory) { return static_cast<std::byte*>(memory); }

struct PlantedWork {
  explicit PlantedWork(const EmulatedOptions& options = {}) : device(open_device(options)) {
    stream = *device->create_stream();
    in = *device->allocate(kThreads * sizeof(float), "in");
    out = *device->allocate(kThreads * sizeof(float), "out");
    count = *device->allocate(sizeof(unsigned), "count");
    host = pinned<float>(*device, kThreads);
    for (std::uint32_t i = 0; i < kThreads; ++i) host[i] = static_cast<float>(i);
    CHECK(device->copy_in(stream, in, bytes_of(host), kThreads * sizeof(float)).ok());
    CHECK(device->copy_in(stream, count, bytes_of(host), sizeof(unsigned)).ok());  // 0
  }
  PlantedArgs args() const {
    return {reinterpret_cast<float*>(in), reinterpret_cast<float*>(out), reinterpret_cast<unsigned*>(count),
            kThreads};
  }
  // A cluster has room for four barriers.
  Status run(const Kernel& kernel, std::uint32_t blocks = 1, std::uint32_t cluster = 1) {
    const LaunchShape shape = {.grid = {blocks / cluster, cluster},
                               .block = {kThreads},
                               .shared_bytes = 4 * kThreads + (cluster > 1 ? 32 : 0),
                               .cluster = cluster};
    PAGODA_RETURN_IF_ERROR(launch(*device, stream, kernel, shape, args()));
    return device->synchronize(stream);
  }
  std::unique_ptr<EmulatedDevice> device;
  StreamId stream;
  std::byte *in, *out, *count;
  float* host;
};

const Planted& planted(std::string_view what) {
  for (const Planted& planted : planted_kernels())
    if (planted.what == what) return planted;
  check_failed("no such kernel", __FILE__, __LINE__);
}

TEST(EmulatedDevice, ItIsLostOnDemandWhileNothingRuns) {
  const auto device = open_device({.memory_bytes = 1 << 20, .lost_look = 2});
  EXPECT_TRUE(device->lost().ok());
  EXPECT_TRUE(device->allocate(1000, "early").has_value());
  EXPECT_FALSE(device->lost().ok());
  EXPECT_EQ(device->lost().code(), StatusCode::unavailable);
  EXPECT_EQ(device->allocate(1000, "late").error().message(), device->lost().message());
}

TEST(EmulatedDevice, ProfilesLaunchesByKernel) {
  PlantedWork work;
  const Planted* first = nullptr;
  for (const Planted& planted : planted_kernels())
    if (planted.good && first == nullptr) first = &planted;
  ASSERT_TRUE(work.run(first->kernel, first->blocks).ok());  // before the profile
  ASSERT_TRUE(work.device->start_profile().ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(work.run(first->kernel, first->blocks).ok());
  const auto times = work.device->end_profile();
  ASSERT_TRUE(times.has_value());
  ASSERT_EQ(times->size(), 1u);
  EXPECT_STREQ(times->front().kernel, first->kernel.name);
  EXPECT_EQ(times->front().launches, 3);
  EXPECT_GT(times->front().microseconds, 0);
  ASSERT_TRUE(work.run(first->kernel, first->blocks).ok());
  EXPECT_TRUE(work.device->end_profile()->empty());
}

TEST(EmulatedDevice, FindsPlantedFaultsInKernels) {
  if (!kChecked) GTEST_SKIP() << "kernels run unchecked in this build";
  for (const Planted& planted : planted_kernels()) {
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      SCOPED_TRACE(::testing::Message() << planted.what << ", seed " << seed);
      PlantedWork work({.seed = seed});
      const Status status = work.run(planted.kernel, planted.blocks, planted.cluster);
      EXPECT_EQ(status.ok(), planted.good) << status.message();
      if (planted.good) continue;
      EXPECT_NE(status.message().find(planted.message), std::string::npos) << status.message();
      EXPECT_NE(status.message().find(planted.kernel.name), std::string::npos) << status.message();
      // It sticks.
      EXPECT_EQ(work.device->synchronize(work.stream).message(), status.message());
      EXPECT_EQ(work.device->allocate(4, "more").error().message(), status.message());
    }
  }
}

TEST(EmulatedDevice, ComputesWhatTheKernelSays) {
  PlantedWork work;
  ASSERT_TRUE(work.run(planted("turn_around").kernel).ok());
  ASSERT_TRUE(work.device->copy_out(work.stream, bytes_of(work.host), work.out, 4 * kThreads).ok());
  ASSERT_TRUE(work.device->synchronize(work.stream).ok());
  for (std::uint32_t i = 0; i < kThreads; ++i) EXPECT_EQ(work.host[i], static_cast<float>(kThreads - 1 - i));
}

// The last round's 32 numbers, turned around, by each of the two blocks; and a device without clusters.
TEST(EmulatedDevice, BlocksOfAClusterShareCopies) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    PlantedWork work({.seed = seed});
    ASSERT_TRUE(work.run(planted("share_show").kernel, 2, 2).ok());
    ASSERT_TRUE(work.device->copy_out(work.stream, bytes_of(work.host), work.out, 4 * kThreads).ok());
    ASSERT_TRUE(work.device->synchronize(work.stream).ok());
    for (std::uint32_t i = 0; i < kThreads; ++i) EXPECT_EQ(work.host[i], static_cast<float>(63 - i % 32));
  }
  PlantedWork without({.clusters = false});
  EXPECT_FALSE(without.device->has_clusters());
  EXPECT_FALSE(without.run(planted("share_show").kernel, 2, 2).ok());
}

TEST(EmulatedDevice, SomeOrdersFindABlockThatLeavesItsClusterEarly) {
  if (!kChecked) GTEST_SKIP() << "kernels run unchecked in this build";
  int found = 0;
  for (std::uint64_t seed = 0; seed < 16; ++seed) {
    const Status status = PlantedWork({.seed = seed}).run(kernel_that_leaves_early(), 2, 2);
    found +=
        status.message().find("ends with copies of its block, or into it, under way") != std::string::npos;
  }
  EXPECT_GT(found, 0);
}

TEST(EmulatedDevice, NewMemoryIsNaN) {
  PlantedWork work;
  ASSERT_TRUE(work.device->copy_out(work.stream, bytes_of(work.host), work.out, 4 * kThreads).ok());
  ASSERT_TRUE(work.device->synchronize(work.stream).ok());
  EXPECT_TRUE(std::isnan(work.host[0]) && std::isnan(work.host[kThreads - 1]));
}

TEST(EmulatedDeviceDeathTest, HostCodeCannotTouchItsMemory) {
  PlantedWork work;
  ASSERT_TRUE(work.device->synchronize(work.stream).ok());
  EXPECT_DEATH(
      {
        volatile float x = *reinterpret_cast<volatile float*>(work.in);
        (void)x;
      },
      "");
  EXPECT_DEATH(std::memset(work.out, 0, 4), "");
}

TEST(EmulatedDevice, FindsUseAfterFree) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    PlantedWork work({.seed = seed});
    ASSERT_TRUE(work.device->synchronize(work.stream).ok());
    // Put into the stream, and perhaps begun: the memory goes before anybody has waited.
    ASSERT_TRUE(work.device->free(work.in).ok());
    const Status status = kChecked ? work.run(planted("turn_around").kernel)
                                   : work.device->copy(work.stream, work.out, work.in, 4);
    const Status after = status.ok() ? work.device->synchronize(work.stream) : status;
    EXPECT_NE(after.message().find("of 'in', which is freed"), std::string::npos) << after.message();
  }
}

TEST(EmulatedDevice, FindsAFreeBehindWorkThatStillWaits) {
  int found = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    PlantedWork work({.seed = seed});
    Status status = work.device->copy(work.stream, work.out, work.in, 4 * kThreads);
    if (status.ok()) status = work.device->free(work.in);
    if (status.ok()) status = work.device->synchronize(work.stream);
    found += status.ok() ? 0 : 1;
  }
  EXPECT_GT(found, 10);  // for the other seeds the copy had run
}

TEST(EmulatedDevice, RefusesBadCalls) {
  const auto broken = [](const auto& call, const char* message) {
    PlantedWork work;
    Status status = call(work);
    if (status.ok()) status = work.device->synchronize(work.stream);
    EXPECT_NE(status.message().find(message), std::string::npos) << status.message();
  };
  float unpinned[4] = {};
  broken([&](PlantedWork& s) { return s.device->copy_in(s.stream, s.in, bytes_of(unpinned), 16); },
         "not pinned");
  broken([](PlantedWork& s) { return s.device->copy_in(s.stream, s.in, bytes_of(s.host), 4 * kThreads + 1); },
         "not pinned");
  broken([](PlantedWork& s) { return s.device->copy(s.stream, s.out, s.in + 4, 4 * kThreads); },
         "at offset 4 of 'in', which has 256 bytes");
  broken([](PlantedWork& s) { return s.device->copy_out(s.stream, bytes_of(s.host), bytes_of(s.host), 4); },
         "not the device's");
  broken([](PlantedWork& s) { return s.device->free(s.in + 256); }, "no allocation has");
  broken([](PlantedWork& s) { return s.device->free_pinned(s.in); }, "not pinned");
  broken(
      [](PlantedWork& s) {
        const Status first = s.device->free(s.in);
        return first.ok() ? s.device->free(s.in) : first;
      },
      "double free of 'in'");
  broken([](PlantedWork& s) { return s.device->synchronize(StreamId{7}); }, "a stream that is none");
  broken([](PlantedWork& s) { return s.device->wait(s.stream, EventId{0}); }, "that is none");
  for (const LaunchShape& shape :
       {LaunchShape{.block = {33}}, LaunchShape{.block = {2048}}, LaunchShape{.grid = {0}, .block = {32}},
        LaunchShape{.block = {32}, .shared_bytes = kMaxSharedBytes + 1},
        LaunchShape{.grid = {2}, .block = {32}, .cluster = 2},
        LaunchShape{.grid = {1, 16}, .block = {32}, .cluster = 16},
        LaunchShape{.grid = {1, 2}, .block = {1024}, .cluster = 2}})
    broken(
        [&](PlantedWork& s) {
          return launch(*s.device, s.stream, planted("turn_around").kernel, shape, s.args());
        },
        "a shape that no device takes");
  broken(
      [](PlantedWork& s) {
        return launch(*s.device, s.stream, kernel(*s.device, KernelId::rms_norm),
                      LaunchShape{.block = {1024}, .shared_bytes = 512}, NormArgs{});
      },
      "registers: no block has as many");
}

// Blocks as large as launches make them have registers, and the largest that there may be do not.
TEST(RegisterFile, HasSomeForEachThread) {
  for (const Kernel& each : emulated_kernels()) EXPECT_GT(registers_of(each.name), 0u) << each.name;
  EXPECT_EQ(registers_of("turn_around"), 0u);
  EXPECT_TRUE(has_registers("rms_norm", 512));
  EXPECT_FALSE(has_registers("rms_norm", 1024));
  EXPECT_TRUE(has_registers("linear_bulk_256_bf16", 384));
  EXPECT_FALSE(has_registers("linear_bulk_256_bf16", 416));
  EXPECT_TRUE(has_registers("sample_rows", 1024));
}

// Two streams and an event between them, or not: the copy out has to wait for the kernel.
bool right_order(std::uint64_t seed, bool with_event) {
  PlantedWork work({.seed = seed});
  CHECK(work.device->synchronize(work.stream).ok());
  const StreamId other = *work.device->create_stream();
  const EventId done = *work.device->create_event();
  float* const host = pinned<float>(*work.device, kThreads);
  const LaunchShape shape = {.block = {kThreads}, .shared_bytes = kThreads * sizeof(float)};
  CHECK(launch(*work.device, work.stream, planted("turn_around").kernel, shape, work.args()).ok());
  CHECK(work.device->record(done, work.stream).ok());
  if (with_event) CHECK(work.device->wait(other, done).ok());
  CHECK(work.device->copy_out(other, bytes_of(host), work.out, 4 * kThreads).ok());
  CHECK(work.device->synchronize(other).ok());
  return host[0] == kThreads - 1;
}

TEST(EmulatedDevice, AMissingEventShowsForSomeSeed) {
  int right = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_TRUE(right_order(seed, true)) << "seed " << seed;
    right += right_order(seed, false) ? 1 : 0;
  }
  EXPECT_GT(right, 0);
  EXPECT_LT(right, 20);
}

TEST(EmulatedDevice, AnEventIsOfItsLatestRecord) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    PlantedWork work({.seed = seed});
    const StreamId other = *work.device->create_stream();
    const EventId done = *work.device->create_event();
    // An event that was never recorded delays nobody.
    ASSERT_TRUE(work.device->wait(other, done).ok());
    ASSERT_TRUE(work.device->synchronize(other).ok());
    ASSERT_TRUE(work.device->record(done, work.stream).ok());
    ASSERT_TRUE(work.device->copy(work.stream, work.out, work.in, 4 * kThreads).ok());
    ASSERT_TRUE(work.device->record(done, work.stream).ok());
    ASSERT_TRUE(work.device->wait(other, done).ok());
    float* const host = pinned<float>(*work.device, kThreads);
    ASSERT_TRUE(work.device->copy_out(other, bytes_of(host), work.out, 4 * kThreads).ok());
    ASSERT_TRUE(work.device->synchronize(other).ok());
    EXPECT_EQ(host[3], 3) << "seed " << seed;
  }
}

TEST(EmulatedDevice, FailsWhereItIsTold) {
  const auto device = open_device({.memory_bytes = 1 << 20, .refused_allocation = 2});
  ASSERT_TRUE(device->allocate(1000, "first").has_value());
  const auto refused = device->allocate(1000, "second");
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), StatusCode::resource_exhausted);
  EXPECT_TRUE(device->allocate(1000, "third").has_value());  // it does not stick
  const auto large = device->allocate(1 << 20, "large");
  ASSERT_FALSE(large.has_value());
  EXPECT_EQ(large.error().code(), StatusCode::resource_exhausted);

  PlantedWork work({.lost_launch = 2});
  EXPECT_TRUE(work.run(planted("turn_around").kernel).ok());
  const Status lost = work.run(planted("turn_around").kernel);
  EXPECT_EQ(lost.code(), StatusCode::internal);
  EXPECT_EQ(work.device->record(EventId{0}, work.stream).message(), lost.message());
}

TEST(EmulatedDevice, MemoryComesBackByBytesButNotByAddresses) {
  const auto device = open_device({.memory_bytes = 1 << 20});
  std::byte* last = nullptr;
  for (int i = 0; i < 50; ++i) {
    const auto memory = device->allocate(600'000, "again");
    ASSERT_TRUE(memory.has_value()) << memory.error().message();
    EXPECT_NE(*memory, last);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(*memory) % 256, 0u);
    ASSERT_TRUE(device->free(last = *memory).ok());
  }
  EXPECT_EQ(device->free_bytes(), std::size_t{1} << 20);
}

TEST(KernelTable, NamesItsKernels) {
  const auto device = open_device();
  EXPECT_STREQ(kernel(*device, KernelId::rms_norm).name, "rms_norm");
  EXPECT_EQ(kernel(*device, KernelId::copy_blocks).args_bytes, sizeof(CopyBlocksArgs));
}

}  // namespace
}  // namespace pagoda::device::emulated
