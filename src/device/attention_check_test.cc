// Goal: a device whose warpgroups attend with the bits of its warps passes, and one that adds up in another
// order is found; no memory is lost either way.
#include "device/attention_check.h"

#include <gtest/gtest.h>

#include "device/test_device.h"

namespace pagoda::device {
namespace {

// `counts`: nobody else takes memory of the device.
Status checked(Device& device, bool counts) {
  const StreamId stream = *device.create_stream();
  const std::size_t free = device.free_bytes();
  Status status = check_bulk_attention(device, stream, 64);
  if (status.ok()) status = check_bulk_attention(device, stream, 128);
  if (counts) EXPECT_EQ(device.free_bytes(), free);
  return status;
}

TEST(AttentionCheck, WarpgroupsHaveTheBitsOfWarps) {
  auto device = *open_test_device();
  const bool counts = dynamic_cast<emulated::EmulatedDevice*>(device.get()) != nullptr;
  const Status status = checked(*device, counts);
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(AttentionCheck, FindsAnotherOrderOfSums) {
  auto device = *emulated::EmulatedDevice::create({.backward_warpgroups = true});
  const Status status = checked(*device, true);
  EXPECT_EQ(status.code(), StatusCode::unavailable);
  EXPECT_NE(status.message().find("attention by warpgroups has other bits"), std::string::npos);
  auto without = *emulated::EmulatedDevice::create({.clusters = false});
  EXPECT_TRUE(checked(*without, true).ok());
}

}  // namespace
}  // namespace pagoda::device
