// Goal: a device whose warpgroups give the bits of its warps passes; of one where a single kernel adds up in
// another order, the form that has this kernel is found, and no other; no memory is lost either way.
#include "device/bulk_check.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "device/test_device.h"

namespace pagoda::device {
namespace {

constexpr WarpgroupForms kAll, kNone = {.bulk = false, .narrow = false, .gated = false};

WarpgroupForms shown(Device& device, const WarpgroupForms& asked = kAll) {
  const StreamId stream = *device.create_stream();
  const std::size_t free = device.free_bytes();
  const auto shown = check_bulk_products(device, stream, asked);
  EXPECT_TRUE(shown.has_value());
  // A GPU's other users take and give back memory meanwhile.
  if (std::getenv("PAGODA_TEST_DEVICE") == nullptr) EXPECT_EQ(device.free_bytes(), free);
  return shown ? *shown : kNone;
}

WarpgroupForms shown_where(const std::string& backward, const WarpgroupForms& asked = kAll) {
  auto device = *emulated::EmulatedDevice::create({.backward_kernels = backward});
  return shown(*device, asked);
}

TEST(BulkCheck, WarpgroupsHaveTheBitsOfWarps) {
  auto device = *open_test_device();
  EXPECT_EQ(shown(*device), kAll);
}

TEST(BulkCheck, FindsAnotherOrderOfSumsInEachKernel) {
  constexpr WarpgroupForms kMany = {.narrow = false}, kFew = {.bulk = false, .gated = false};
  for (const char* rows : {"64", "128", "256"}) {
    const std::string name = std::string(rows) + "_bf16";
    EXPECT_EQ(shown_where("linear_bulk_" + name, kMany), (WarpgroupForms{.bulk = false, .narrow = false}))
        << name;
    EXPECT_EQ(shown_where("linear_bulk_gated_" + name, kMany),
              (WarpgroupForms{.narrow = false, .gated = false}))
        << name;
  }
  for (const char* columns : {"32", "48", "64", "112"})
    for (const char* rows : {"32", "64"}) {
      const std::string name = std::string("linear_narrow_") + columns + "_" + rows + "_bf16";
      EXPECT_EQ(shown_where(name, kFew), kNone) << name;
    }
  for (const char* columns : {"64", "112"})
    EXPECT_EQ(shown_where(std::string("linear_narrow_") + columns + "_128_bf16", kFew), kNone) << columns;
  EXPECT_EQ(shown_where("linear_"), kNone);
}

TEST(BulkCheck, AsksForNoMoreThanIsTaken) {
  EXPECT_EQ(shown_where("linear_bulk_", {.bulk = false, .gated = false}),
            (WarpgroupForms{.bulk = false, .gated = false}));
  EXPECT_EQ(shown_where("linear_", kNone), kNone);
  auto without = *emulated::EmulatedDevice::create({.clusters = false, .backward_kernels = "linear_"});
  EXPECT_EQ(shown(*without), kAll);
}

TEST(BulkCheck, GivesTheErrorOfALostDevice) {
  for (const std::int64_t launch : {1, 3, 9}) {
    auto device = *emulated::EmulatedDevice::create({.lost_launch = launch});
    const auto lost = check_bulk_products(*device, *device->create_stream(), kAll);
    ASSERT_FALSE(lost.has_value());
    EXPECT_EQ(lost.error().code(), StatusCode::internal);
  }
}

}  // namespace
}  // namespace pagoda::device
