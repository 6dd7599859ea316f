// Goal: a device whose warpgroups give the bits of its warps passes, and one that adds up in another order is
// found; no memory is lost either way.
#include "device/bulk_check.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "device/test_device.h"

namespace pagoda::device {
namespace {

Status checked(Device& device) {
  const StreamId stream = *device.create_stream();
  const std::size_t free = device.free_bytes();
  Status status = check_bulk_products(device, stream);
  // A GPU's other users take and give back memory meanwhile.
  if (std::getenv("PAGODA_TEST_DEVICE") == nullptr) EXPECT_EQ(device.free_bytes(), free);
  return status;
}

TEST(BulkCheck, WarpgroupsHaveTheBitsOfWarps) {
  auto device = *open_test_device();
  const Status status = checked(*device);
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(BulkCheck, FindsAnotherOrderOfSums) {
  auto device = *emulated::EmulatedDevice::create({.backward_warpgroups = true});
  const Status status = checked(*device);
  EXPECT_EQ(status.code(), StatusCode::unavailable);
  EXPECT_NE(status.message().find("products by warpgroups have other bits"), std::string::npos);
  auto without = *emulated::EmulatedDevice::create({.clusters = false});
  EXPECT_TRUE(checked(*without).ok());
}

}  // namespace
}  // namespace pagoda::device
