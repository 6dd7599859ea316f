// Goal: a device whose warpgroups attend with the bits of its warps passes, and one that adds up in another
// order is found; no memory is lost either way.
#include "device/attention_check.h"

#include <gtest/gtest.h>

#include "device/test_device.h"

namespace pagoda::device {
namespace {

Status checked(Device& device) {
  const StreamId stream = *device.create_stream();
  const std::size_t free = device.free_bytes();
  Status status = check_bulk_attention(device, stream);
  EXPECT_EQ(device.free_bytes(), free);
  return status;
}

TEST(AttentionCheck, WarpgroupsHaveTheBitsOfWarps) {
  auto device = *open_test_device();
  const Status status = checked(*device);
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(AttentionCheck, FindsAnotherOrderOfSums) {
  auto device = *emulated::EmulatedDevice::create({.backward_warpgroups = true});
  const Status status = checked(*device);
  EXPECT_EQ(status.code(), StatusCode::unavailable);
  EXPECT_NE(status.message().find("attention by warpgroups has other bits"), std::string::npos);
  auto without = *emulated::EmulatedDevice::create({.clusters = false});
  EXPECT_TRUE(checked(*without).ok());
}

}  // namespace
}  // namespace pagoda::device
