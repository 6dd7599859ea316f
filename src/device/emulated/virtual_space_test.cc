// Goal: reserved addresses of the emulated device show what is mapped there, at several addresses, too; and
// what a driver may let pass is an error: double maps, accesses before set_access(), halves of granules and
// mappings. Method: one right order of calls, and each of its mistakes.
#include "device/emulated/virtual_space.h"

#include <gtest/gtest.h>

#include <cstring>

#include "device/emulated/emulated_device.h"
#include "device/kernel_launches.h"

namespace pagoda::device::emulated {
namespace {

constexpr std::size_t kPage = 4096;

struct Space {
  explicit Space(EmulatedOptions options = {}) {
    options.granule = kPage;
    device = *EmulatedDevice::create(options);
    stream = *device->create_stream();
    base = *device->reserve(8 * kPage);
    host = *device->allocate_pinned(2 * kPage);
    for (PhysicalId& page : pages) page = *device->create_physical(kPage);
  }
  std::byte* at(std::size_t page) const { return base + page * kPage; }
  void show(std::size_t where, std::size_t page) {
    ASSERT_TRUE(device->map(at(where), pages[page]).ok());
    ASSERT_TRUE(device->set_access(at(where), kPage).ok());
  }
  Status copy_out(std::size_t where, std::size_t bytes = kPage) {
    PAGODA_RETURN_IF_ERROR(device->copy_out(stream, host, at(where), bytes));
    return device->synchronize(stream);
  }
  Status copy_in(std::size_t where, int value) {
    std::memset(host, value, kPage);
    PAGODA_RETURN_IF_ERROR(device->copy_in(stream, at(where), host, kPage));
    return device->synchronize(stream);
  }
  std::unique_ptr<EmulatedDevice> device;
  StreamId stream{};
  std::byte *base = nullptr, *host = nullptr;
  PhysicalId pages[3]{};
};

void expect_wrong(const Status& status, std::string_view said) {
  EXPECT_EQ(status.code(), StatusCode::invalid_argument);
  EXPECT_NE(status.message().find(said), std::string::npos) << status.message();
}

TEST(VirtualSpace, APageIsTheSameBytesWhereverItIsShown) {
  Space space;
  space.show(1, 0);
  space.show(5, 0);
  space.show(6, 1);
  ASSERT_TRUE(space.copy_in(1, 7).ok());
  ASSERT_TRUE(space.copy_out(5, 2 * kPage).ok());  // over two mappings
  EXPECT_EQ(space.host[kPage - 1], std::byte{7});
  EXPECT_EQ(space.host[kPage], std::byte{0xFF});  // never written
  // It keeps them while nobody shows it.
  ASSERT_TRUE(space.device->unmap(space.at(5), 2 * kPage).ok());
  ASSERT_TRUE(space.device->unmap(space.at(1), kPage).ok());
  space.show(0, 0);
  ASSERT_TRUE(space.copy_out(0).ok());
  EXPECT_EQ(space.host[17], std::byte{7});
}

TEST(VirtualSpace, KernelsReadAndWriteThroughIt) {
  Space space;
  space.show(2, 0);
  space.show(3, 1);
  ASSERT_TRUE(space.copy_in(2, 9).ok());
  std::byte* const lists = *space.device->allocate(256, "lists");
  const std::int32_t numbers[2] = {2, 3};
  std::memcpy(space.host, numbers, sizeof numbers);
  ASSERT_TRUE(space.device->copy_in(space.stream, lists, space.host, sizeof numbers).ok());
  KernelLaunches launches(*space.device, space.stream);
  const auto* const ids = reinterpret_cast<const std::int32_t*>(lists);
  const CopyBlocksArgs args = {
      .cache = space.base, .from = ids, .to = ids + 1, .block_bytes = static_cast<std::int64_t>(kPage)};
  ASSERT_TRUE(launches.copy_blocks(args, 1).ok());
  ASSERT_TRUE(space.copy_out(3).ok());
  EXPECT_EQ(space.host[kPage - 1], std::byte{9});
  // And where nothing is mapped any more, a kernel's fault names it.
  ASSERT_TRUE(space.device->unmap(space.at(3), kPage).ok());
  ASSERT_TRUE(launches.copy_blocks(args, 1).ok());
  const Status fault = space.device->synchronize(space.stream);
  EXPECT_NE(fault.message().find("where nothing is mapped"), std::string::npos) << fault.message();
}

TEST(VirtualSpace, MistakesAreErrorsAndChangeNothing) {
  Space space;
  EmulatedDevice& device = *space.device;
  space.show(2, 0);
  expect_wrong(device.map(space.at(2), space.pages[1]), "double map()");
  expect_wrong(device.map(space.at(1) + 512, space.pages[1]), "no multiple of the granule");
  expect_wrong(device.map(space.at(8), space.pages[1]), "outside of reserved addresses");
  expect_wrong(device.map(space.at(3), PhysicalId{77}), "memory that is none");
  expect_wrong(device.set_access(space.at(3), kPage), "no mapping begins");
  expect_wrong(device.unmap(space.at(3), kPage), "no mapping begins");
  expect_wrong(device.unmap(space.at(2), kPage / 2), "half a mapping");
  expect_wrong(device.unmap(space.at(1), 2 * kPage), "no mapping begins");
  expect_wrong(device.release(space.base), "where memory is mapped");
  expect_wrong(device.release(space.at(1)), "that reserve() did not give");
  expect_wrong(device.destroy_physical(space.pages[0]), "still mapped");
  expect_wrong(device.reserve(kPage + 1).error(), "no multiple of the granule");
  expect_wrong(device.create_physical(100).error(), "no multiple of the granule");
  // Two pages' memory does not go where the second page's place is taken.
  const PhysicalId large = *device.create_physical(2 * kPage);
  expect_wrong(device.map(space.at(1), large), "double map()");
  expect_wrong(device.map(space.at(7), large), "beyond reserved addresses");
  ASSERT_TRUE(space.copy_in(2, 3).ok());
  ASSERT_TRUE(device.unmap(space.at(2), kPage).ok());
  ASSERT_TRUE(device.release(space.base).ok());
  for (const PhysicalId page : space.pages) EXPECT_TRUE(device.destroy_physical(page).ok());
  expect_wrong(device.destroy_physical(space.pages[0]), "memory that is none");
}

TEST(VirtualSpace, WhatTouchesItTooEarlyOrTooLateIsAFault) {
  {
    Space space;
    ASSERT_TRUE(space.device->map(space.at(2), space.pages[0]).ok());
    EXPECT_NE(space.copy_out(2).message().find("mapped without access"), std::string::npos);
  }
  {
    Space space;
    space.show(2, 0);
    EXPECT_NE(space.copy_out(2, 2 * kPage).message().find("where nothing is mapped"), std::string::npos);
  }
  // Work in a stream that has not run is not done.
  Space space;
  space.show(2, 0);
  ASSERT_TRUE(space.device->copy_out(space.stream, space.host, space.at(2), kPage).ok());
  ASSERT_TRUE(space.device->unmap(space.at(2), kPage).ok());
  EXPECT_NE(space.device->synchronize(space.stream).message().find("where nothing is mapped"),
            std::string::npos);
}

TEST(VirtualSpace, PhysicalMemoryIsTheDevices) {
  Space space({.memory_bytes = 1 << 20});
  const std::size_t before = space.device->free_bytes();
  EXPECT_EQ(before, (std::size_t{1} << 20) - 3 * kPage);
  const auto all = space.device->create_physical(before);
  ASSERT_TRUE(all.has_value());
  const auto more = space.device->create_physical(kPage);
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code(), StatusCode::resource_exhausted);
  EXPECT_FALSE(space.device->allocate(256, "more"));
  ASSERT_TRUE(space.device->destroy_physical(*all).ok());
  EXPECT_EQ(space.device->free_bytes(), before);
}

TEST(VirtualSpaceDeathTest, TheHostCannotReadIt) {
  Space space;
  space.show(0, 0);
  EXPECT_DEATH((void)*static_cast<volatile std::byte*>(space.base), "");
}

}  // namespace
}  // namespace pagoda::device::emulated
