// Goal: the emulated device's matrices are where the PTX ISA says ("Matrix Fragments for mma.m16n8k16 with
// floating point type", "ldmatrix"): fragments are filled and read here by the formulas of those pages,
// element by element, and what comes out is the plain product. A kernel that agreed with the emulator alone
// would not be right.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "device/emulated/emulated_device.h"
#include "device/emulated/planted_kernels.h"

namespace pagoda::device::emulated {
namespace {

constexpr int kTileRows = 16, kTileColumns = 8, kTileDepth = 16;

TEST(TileWords, FragmentsAreWhereTheIsaSays) {
  auto device = EmulatedDevice::create({});
  ASSERT_TRUE(device);
  const StreamId stream = *(*device)->create_stream();
  std::vector<float> a, b;
  for (int i = 0; i < kTileRows * kTileDepth; ++i) a.push_back(static_cast<float>(i * 5 % 17 - 8));
  for (int i = 0; i < kTileDepth * kTileColumns; ++i) b.push_back(static_cast<float>(i * 3 % 13 - 6));
  const auto put = [&](const std::vector<float>& values) {
    std::byte* const host = *(*device)->allocate_pinned(values.size() * 4);
    std::memcpy(host, values.data(), values.size() * 4);
    std::byte* const there = *(*device)->allocate(values.size() * 4, "matrix");
    EXPECT_TRUE((*device)->copy_in(stream, there, host, values.size() * 4).ok());
    return reinterpret_cast<float*>(there);
  };
  const std::vector<float> nothing(kTileRows * kTileColumns);
  FragmentArgs args = {.a = put(a), .b = put(b), .out = put(nothing)};
  std::byte* const host = *(*device)->allocate_pinned(nothing.size() * 4);
  const Kernel kernel = product_of_fragments();
  for (args.by_rows = 0; args.by_rows < 2; ++args.by_rows) {
    const LaunchShape shape = {.block = {32},
                               .shared_bytes = (kTileRows * kTileDepth + kTileDepth * kTileColumns) * 2};
    ASSERT_TRUE(launch(**device, stream, kernel, shape, args).ok());
    ASSERT_TRUE(
        (*device)->copy_out(stream, host, reinterpret_cast<std::byte*>(args.out), nothing.size() * 4).ok());
    const Status ran = (*device)->synchronize(stream);
    ASSERT_TRUE(ran.ok()) << ran.message();
    for (int row = 0; row < kTileRows; ++row)
      for (int column = 0; column < kTileColumns; ++column) {
        float wanted = static_cast<float>(100 * (1 + row / 8 * 2 + column % 2));
        for (int k = 0; k < kTileDepth; ++k)
          wanted += a[static_cast<std::size_t>(row * kTileDepth + k)] *
                    b[static_cast<std::size_t>(k * kTileColumns + column)];
        float got = 0;
        std::memcpy(&got, host + 4 * (row * kTileColumns + column), 4);
        EXPECT_EQ(got, wanted) << args.by_rows << " row " << row << " column " << column;
      }
  }
}

}  // namespace
}  // namespace pagoda::device::emulated
