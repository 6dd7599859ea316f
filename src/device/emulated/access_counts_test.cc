// Goal: accesses are counted as a GPU's memories serve them; and the kernels that are bound by memory touch
// it as they are meant to: without conflicts of banks, in whole sectors.
#include "device/emulated/access_counts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "device/emulated/emulated_device.h"
#include "device/kernel_launches.h"
#include "kernels/testing.h"

namespace pagoda::device::emulated {
namespace {

using Counts = AccessCounts::Counts;

// One access of `size` bytes, lane i's at offset(i).
template <class Offset>
Counts counted(Memory memory, std::size_t size, const Offset& offset, std::uint32_t lanes = kWarp) {
  AccessCounts counts;
  for (std::uint32_t lane = 0; lane < lanes; ++lane)
    counts.note(0, lane, &counts, memory, static_cast<std::uintptr_t>(offset(lane)), size);
  counts.meet(0, "k");
  return counts.of_kernels().at("k");
}

TEST(AccessCounts, BanksOfSharedMemory) {
  const auto wavefronts = [](std::size_t size, const auto& offset) {
    const Counts counts = counted(Memory::shared, size, offset);
    return std::pair(counts.wavefronts, counts.least_wavefronts);
  };
  EXPECT_EQ(wavefronts(4, [](auto i) { return 4 * i; }), std::pair(1L, 1L));
  EXPECT_EQ(wavefronts(4, [](auto) { return 8; }), std::pair(1L, 1L));            // all the same word
  EXPECT_EQ(wavefronts(2, [](auto i) { return 2 * i; }), std::pair(1L, 1L));      // two lanes a word
  EXPECT_EQ(wavefronts(4, [](auto i) { return 8 * i; }), std::pair(2L, 1L));      // two words a bank
  EXPECT_EQ(wavefronts(4, [](auto i) { return 128 * i; }), std::pair(32L, 1L));   // one bank
  EXPECT_EQ(wavefronts(16, [](auto i) { return 16 * i; }), std::pair(4L, 4L));    // quarters of the warp
  EXPECT_EQ(wavefronts(16, [](auto i) { return 128 * i; }), std::pair(32L, 4L));  // eight rows, one place
  EXPECT_EQ(wavefronts(16, [](auto i) { return 144 * i; }), std::pair(4L, 4L));   // padded
  EXPECT_EQ(wavefronts(8, [](auto i) { return 8 * i; }), std::pair(2L, 2L));
}

TEST(AccessCounts, SectorsOfGlobalMemory) {
  const auto sectors = [](std::size_t size, const auto& offset, std::uint32_t lanes = kWarp) {
    const Counts counts = counted(Memory::global, size, offset, lanes);
    return std::pair(counts.sectors, counts.least_sectors);
  };
  EXPECT_EQ(sectors(4, [](auto i) { return 4 * i; }), std::pair(4L, 4L));
  EXPECT_EQ(sectors(4, [](auto i) { return 16 + 4 * i; }), std::pair(5L, 4L));  // begins within one
  EXPECT_EQ(sectors(4, [](auto i) { return 32 * i; }), std::pair(32L, 4L));
  EXPECT_EQ(sectors(16, [](auto i) { return 16 * i; }, 8), std::pair(4L, 4L));
}

TEST(AccessCounts, AccessesOfAnInstructionAreToldApartByTimesAndMeetings) {
  AccessCounts counts;
  for (std::uintptr_t time = 0; time < 2; ++time)
    for (std::uint32_t lane = 0; lane < kWarp; ++lane)
      counts.note(3, lane, &counts, Memory::shared, 4 * (32 * time + lane), 4);
  counts.meet(3, "k");
  counts.meet(3, "k");  // nothing since
  EXPECT_EQ(counts.of_kernels().at("k"), (Counts{.wavefronts = 2, .least_wavefronts = 2}));
}

// Launches of the kernels that read weights and caches, and what they cost.
class CountedKernels {
 public:
  CountedKernels() {
    device_ = *EmulatedDevice::create({.memory_bytes = std::size_t{64} << 20, .count_accesses = true});
    stream_ = *device_->create_stream();
  }
  std::byte* room(std::size_t bytes) {
    std::byte* const host = *device_->allocate_pinned(bytes);
    std::byte* const to = *device_->allocate(bytes, "room");
    std::memset(host, 0, bytes);
    EXPECT_TRUE(device_->copy_in(stream_, to, host, bytes).ok());
    return to;
  }
  template <class T>
  T* put(const std::vector<T>& values) {
    std::byte* const host = *device_->allocate_pinned(values.size() * sizeof(T));
    std::byte* const to = *device_->allocate(values.size() * sizeof(T), "values");
    std::memcpy(host, values.data(), values.size() * sizeof(T));
    EXPECT_TRUE(device_->copy_in(stream_, to, host, values.size() * sizeof(T)).ok());
    return reinterpret_cast<T*>(to);
  }
  KernelLaunches run() { return {*device_, stream_}; }

  void products() {
    for (const Element element :
         {Element::bf16, Element::q4, Element::q8, Element::q4_k, Element::q5_k, Element::q6_k, Element::fp8,
          Element::fp8_blocks, Element::mxfp4, Element::nvfp4})
      for (const std::int32_t rows : {16, 32, 63, 64, 128}) {
        const std::int32_t n = 128, k = 1024;
        LinearArgs args;
        args.x = reinterpret_cast<const float*>(room(static_cast<std::size_t>(rows * k) * 4));
        args.weight = room(static_cast<std::size_t>(n * KernelLaunches::row_bytes(element, k)));
        args.y = reinterpret_cast<float*>(room(static_cast<std::size_t>(rows * n) * 4));
        args.rounded = reinterpret_cast<std::uint16_t*>(room(static_cast<std::size_t>(rows * k) * 2));
        args.rows = rows, args.n = n, args.k = k;
        const auto form = rows > 64    ? KernelLaunches::ProductForm::many
                          : rows == 64 ? KernelLaunches::ProductForm::wide
                          : rows > 32  ? KernelLaunches::ProductForm::some
                          : rows > 16  ? KernelLaunches::ProductForm::several
                                       : KernelLaunches::ProductForm::few;
        EXPECT_TRUE(run().linear_tiles(element, args, form).ok());
      }
  }

  // Two types in one launch, with the norm of x and a function of y.
  void parts() {
    const std::int32_t n = 64, k = 1024;
    std::vector<KernelLaunches::Matrix> matrices;
    for (const Element element : {Element::q4_k, Element::q6_k})
      matrices.push_back({.element = element,
                          .weight = room(static_cast<std::size_t>(n * KernelLaunches::row_bytes(element, k))),
                          .n = n});
    FewLinearArgs args;
    args.product.rows = 1, args.product.k = k;
    args.product.x = reinterpret_cast<const float*>(room(static_cast<std::size_t>(k) * 4));
    args.product.y = reinterpret_cast<float*>(room(static_cast<std::size_t>(2 * n) * 4));
    args.norm.kind = InputNorm::Kind::rms;
    args.norm.weight = reinterpret_cast<const float*>(room(static_cast<std::size_t>(k) * 4));
    args.output.is_there = 1;
    EXPECT_TRUE(run().linear_few(matrices, args).ok());
  }

  // Rows at the end of sequences of 200 tokens each, by one and by tiles of 16.
  void attention() {
    const std::int32_t sequences = 2, length = 200, block = 16, size = 128, heads = 8, kv_heads = 2;
    const std::int32_t blocks = (length + block - 1) / block;
    std::vector<std::int32_t> table, rows, positions, tables;
    for (std::int32_t i = 0; i < sequences * blocks; ++i) table.push_back(i);
    for (std::int32_t i = 0; i < 16 * sequences; ++i) {
      rows.push_back(i);
      positions.push_back(length - 16 + i % 16);
      tables.push_back(i / 16 * blocks);
    }
    AttentionArgs args;
    args.cache.block_elements = 2 * kv_heads * block * size;
    args.cache.cache = room(static_cast<std::size_t>(sequences * blocks * args.cache.block_elements) * 2);
    args.cache.block_size = block, args.cache.num_kv_heads = kv_heads, args.cache.head_size = size;
    args.qkv = reinterpret_cast<const float*>(
        room(rows.size() * static_cast<std::size_t>((heads + 2 * kv_heads) * size) * 4));
    args.rows = put(rows), args.positions = put(positions), args.tables = put(tables);
    args.block_tables = put(table);
    args.num_query_heads = heads;
    args.splits = (length + kSplitTokens - 1) / kSplitTokens, args.scale = 1;
    args.out = reinterpret_cast<float*>(room(rows.size() * static_cast<std::size_t>(heads * size) * 4));
    args.partial = reinterpret_cast<float*>(
        room(static_cast<std::size_t>(KernelLaunches::partial_floats(args, std::ssize(rows))) * 4));
    args.tickets = put(std::vector<std::uint32_t>(rows.size() * kv_heads));
    args.tiles = put(std::vector<std::int32_t>{0, 16, 32});
    EXPECT_TRUE(run().attend_tile_splits(args, std::ssize(rows)).ok());
    EXPECT_TRUE(run().attend_tile_walk(args, std::ssize(rows)).ok());
    EXPECT_TRUE(run().attend_tiles(args, sequences).ok());
  }

  const std::map<std::string, Counts>& counts() {
    const Status ran = device_->synchronize(stream_);
    EXPECT_TRUE(ran.ok()) << ran.message();
    return device_->access_counts().of_kernels();
  }

 private:
  std::unique_ptr<EmulatedDevice> device_;
  StreamId stream_{};
};

double share(std::int64_t counted, std::int64_t least) {
  return static_cast<double>(counted) / static_cast<double>(std::max<std::int64_t>(1, least));
}

TEST(AccessCounts, KernelsHaveNoConflictsAndWholeSectors) {
#ifdef PAGODA_DEVICE_UNCHECKED
  GTEST_SKIP() << "kernels run unchecked in this build";
#endif
  CountedKernels kernels;
  kernels.products();
  kernels.parts();
  kernels.attention();
  EXPECT_EQ(
      kernels.counts().size(),
      51u);  // products in 5 forms of 10 types, but for four, and of parts, attention, what they need beside
  for (const auto& [name, counts] : kernels.counts()) {
    SCOPED_TRACE(name);
    // Groups and units of 96 bytes lie in rows of 112: pieces of some lanes are in one bank.
    const bool of_96 = name.ends_with("_q4") || name.ends_with("_q5_k");
    EXPECT_LE(share(counts.wavefronts, counts.least_wavefronts), of_96 ? 1.15 : 1.0);
    // Rows of few products are rounded by threads that load 32 bytes in two halves. Every other row of NVFP4
    // begins within a sector.
    EXPECT_LE(share(counts.sectors, counts.least_sectors), name.starts_with("linear_few") ? 2.0
                                                           : name.ends_with("_nvfp4")     ? 1.4
                                                                                          : 1.2);
  }
}

}  // namespace
}  // namespace pagoda::device::emulated
