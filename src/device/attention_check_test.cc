// Goal: a device whose warpgroups attend with the bits of its warps passes, and one that adds up in another
// order is found; no memory is lost either way.
#include "device/attention_check.h"

#include <gtest/gtest.h>

#include "device/test_device.h"

namespace pagoda::device {
namespace {

// `counts`: nobody else takes memory of the device.
bool has_the_bits(Device& device, bool counts) {
  const StreamId stream = *device.create_stream();
  const std::size_t free = device.free_bytes();
  bool same = true;
  for (const Element cache : {Element::bf16, Element::i8, Element::fp8})
    for (const std::int32_t head_size : {64, 128}) {
      const auto checked = check_bulk_attention(device, stream, head_size, cache);
      EXPECT_TRUE(checked.has_value());
      same = same && checked && *checked;
    }
  if (counts) EXPECT_EQ(device.free_bytes(), free);
  return same;
}

TEST(AttentionCheck, WarpgroupsHaveTheBitsOfWarps) {
  auto device = *open_test_device();
  const bool counts = dynamic_cast<emulated::EmulatedDevice*>(device.get()) != nullptr;
  EXPECT_TRUE(has_the_bits(*device, counts));
}

TEST(AttentionCheck, FindsAnotherOrderOfSums) {
  for (const char* kernel : {"attend_bulk_64", "attend_bulk_128", "attend_bulk_64_i8", "attend_bulk_128_i8",
                             "attend_bulk_64_fp8", "attend_bulk_128_fp8"}) {
    auto device = *emulated::EmulatedDevice::create({.backward_kernels = kernel});
    EXPECT_FALSE(has_the_bits(*device, true)) << kernel;
  }
  auto without = *emulated::EmulatedDevice::create({.clusters = false});
  EXPECT_TRUE(has_the_bits(*without, true));
}

}  // namespace
}  // namespace pagoda::device
