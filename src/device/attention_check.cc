#include "device/attention_check.h"

#include <bit>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "device/kernel_launches.h"
#include "device/kernels/launch_shapes.h"

namespace pagoda::device {
namespace {

// A prompt behind a context, over three splits; four query heads and a KV head.
constexpr std::int32_t kContext = 100, kRows = 61, kGroup = 4, kBlockSize = 16,
                       kBlocks = (kContext + kRows + kBlockSize - 1) / kBlockSize;
// Exponents of numbers, from these on: scores near each other, and far apart.
constexpr std::uint32_t kExponents = 8, kLeast[] = {117, 121};

class Check {
 public:
  Check(Device& device, StreamId stream) : device_(device), stream_(stream) {}
  ~Check() { clear(); }
  Check(const Check&) = delete;
  Check& operator=(const Check&) = delete;

  Status compare(std::int32_t head_size, std::uint32_t least) {
    clear();
    if (!KernelLaunches(device_, stream_)
             .supports_bulk_attention({.block_size = kBlockSize, .num_kv_heads = 1, .head_size = head_size}))
      return ok_status();
    const auto drawn = [&](std::uint64_t i) {
      const auto bits = static_cast<std::uint32_t>(random_bits(13, least, i));
      return static_cast<std::uint16_t>((bits & 0x807Fu) | (least + (bits >> 16) % kExponents) << 7);
    };
    const std::int64_t block = std::int64_t{2} * head_size * kBlockSize, width = (kGroup + 2) * head_size;
    std::vector<std::uint16_t> cache(static_cast<std::size_t>(kBlocks * block));
    for (std::size_t i = 0; i < cache.size(); ++i) cache[i] = drawn(i);
    std::vector<float> qkv(static_cast<std::size_t>(kRows * width));
    for (std::size_t i = 0; i < qkv.size(); ++i)
      qkv[i] = std::bit_cast<float>(static_cast<std::uint32_t>(drawn(cache.size() + i)) << 16);
    std::vector<std::int32_t> table(kBlocks), rows(kRows), positions(kRows), tables(kRows);
    std::iota(table.rbegin(), table.rend(), 0);
    std::iota(rows.begin(), rows.end(), 0);
    std::iota(positions.begin(), positions.end(), kContext);
    AttentionArgs args;
    args.cache = {
        .block_elements = block, .block_size = kBlockSize, .num_kv_heads = 1, .head_size = head_size};
    args.num_query_heads = kGroup;
    args.scale = 0.125f;
    args.cache.cache = put(cache);
    args.qkv = put(qkv);
    args.block_tables = put(table);
    args.rows = put(rows);
    args.positions = put(positions);
    args.tables = put(tables);
    const std::size_t bytes = std::size_t{4} * kRows * kGroup * static_cast<std::size_t>(head_size);
    std::vector<float> out(bytes / 4);
    args.out = put(out);
    std::vector<std::byte> wanted;
    for (const bool bulk : {false, true}) {
      const std::int32_t most = bulk ? KernelLaunches::bulk_rows_of_tile(kGroup, 1)
                                     : KernelLaunches::rows_of_tile(kGroup, 1, head_size);
      std::vector<std::int32_t> tiles;
      for (std::int32_t row = 0; row < kRows; row += most) tiles.push_back(row);
      const std::int64_t count = std::ssize(tiles);
      tiles.push_back(kRows);
      args.tiles = put(tiles);
      PAGODA_RETURN_IF_ERROR(error_);
      KernelLaunches launches(device_, stream_);
      PAGODA_RETURN_IF_ERROR(bulk ? launches.attend_bulk(args, count) : launches.attend_tiles(args, count));
      PAGODA_RETURN_IF_ERROR(
          device_.copy_out(stream_, pinned_.back(), reinterpret_cast<std::byte*>(args.out), bytes));
      PAGODA_RETURN_IF_ERROR(device_.synchronize(stream_));
      if (!bulk) wanted.assign(pinned_.back(), pinned_.back() + bytes);
      if (std::memcmp(wanted.data(), pinned_.back(), bytes) != 0)
        return unavailable(concat(device_.describe(),
                                  ": attention by warpgroups has other bits than that by warps: use "
                                  "--device-attention tiles"));
    }
    return ok_status();
  }

 private:
  // Null, and the error in error_, where there is no memory. The latest one's pinned memory has room for all
  // that is read back.
  template <class T>
  T* put(const std::vector<T>& values) {
    const std::size_t bytes = values.size() * sizeof(T), room = std::max<std::size_t>(bytes, 1 << 18);
    if (!error_.ok()) return nullptr;
    auto there = device_.allocate(bytes, "a check of attention");
    if (there) memory_.push_back(*there);
    auto here = device_.allocate_pinned(room);
    if (here) pinned_.push_back(*here);
    if (!there || !here) {
      error_ = there ? here.error() : there.error();
      return nullptr;
    }
    std::memcpy(*here, values.data(), bytes);
    error_ = device_.copy_in(stream_, *there, *here, bytes);
    return reinterpret_cast<T*>(*there);
  }

  void clear() {
    for (std::byte* memory : memory_) (void)device_.free(memory);
    for (std::byte* memory : pinned_) (void)device_.free_pinned(memory);
    memory_.clear();
    pinned_.clear();
  }

  Device& device_;
  StreamId stream_;
  Status error_;
  std::vector<std::byte*> memory_, pinned_;
};

}  // namespace

Status check_bulk_attention(Device& device, StreamId stream, std::int32_t head_size) {
  Check check(device, stream);
  for (const std::uint32_t least : kLeast) PAGODA_RETURN_IF_ERROR(check.compare(head_size, least));
  return ok_status();
}

}  // namespace pagoda::device
