#include "device/attention_check.h"

#include <bit>
#include <cstring>
#include <numeric>
#include <span>

#include "base/random.h"
#include "device/check_memory.h"
#include "device/kernel_launches.h"

namespace pagoda::device {
namespace {

// A prompt after a context, over three splits; four query heads and one KV head.
constexpr std::int32_t kContext = 100, kRows = 61, kGroup = 4, kBlockSize = 16,
                       kBlocks = (kContext + kRows + kBlockSize - 1) / kBlockSize;
// Exponents of the numbers, from each of these minimums on: scores close to each other, and far apart.
constexpr std::uint32_t kExponents = 8, kLeast[] = {117, 121};

// A cache of 8 bits: codes of all magnitudes (no NaN), and scales after a head's slots.
void fill_with_codes(std::span<std::byte> cache, std::int32_t head_size, Element element) {
  const std::size_t slots = std::size_t{kBlockSize} * static_cast<std::size_t>(head_size),
                    head = slots + (element == Element::i8 ? 4 * std::size_t{kBlockSize} : 0);
  for (std::size_t i = 0; i < cache.size(); ++i) {
    const auto bits = static_cast<std::uint32_t>(random_bits(14, head, i));
    cache[i] = static_cast<std::byte>(element == Element::fp8 ? bits & 0xBFu : bits);
    if (i % head >= slots && i % 4 == 0) {
      const float scale = 0.001f * static_cast<float>(1 + bits % 100);
      std::memcpy(&cache[i], &scale, sizeof scale);
      i += 3;
    }
  }
}

// Attention of a prompt by warpgroups, or by warps, over numbers with exponents from `least` on.
std::vector<float> attended(Device& device, StreamId stream, CheckMemory& memory, std::int32_t head_size,
                            Element element, std::uint32_t least, bool bulk) {
  const auto drawn = [&](std::uint64_t i) {
    const auto bits = static_cast<std::uint32_t>(random_bits(13, least, i));
    return static_cast<std::uint16_t>((bits & 0x807Fu) | (least + (bits >> 16) % kExponents) << 7);
  };
  const std::int64_t slot = head_size + (element == Element::i8 ? 4 : 0), block = 2 * slot * kBlockSize,
                     width = (kGroup + 2) * head_size;
  const auto elements = static_cast<std::size_t>(kBlocks * block);
  std::vector<std::uint16_t> cache(element == Element::bf16 ? elements : elements / 2);
  for (std::size_t i = 0; i < cache.size(); ++i) cache[i] = drawn(i);
  if (element != Element::bf16) fill_with_codes(std::as_writable_bytes(std::span(cache)), head_size, element);
  std::vector<float> qkv(static_cast<std::size_t>(kRows * width));
  for (std::size_t i = 0; i < qkv.size(); ++i)
    qkv[i] = std::bit_cast<float>(static_cast<std::uint32_t>(drawn(elements + i)) << 16);
  std::vector<std::int32_t> table(kBlocks), rows(kRows), positions(kRows), tables(kRows), tiles;
  std::iota(table.rbegin(), table.rend(), 0);
  std::iota(rows.begin(), rows.end(), 0);
  std::iota(positions.begin(), positions.end(), kContext);
  const std::int32_t most = bulk ? KernelLaunches::bulk_rows_of_tile(kGroup, 1)
                                 : KernelLaunches::rows_of_tile(kGroup, 1, head_size);
  for (std::int32_t row = 0; row < kRows; row += most) tiles.push_back(row);
  const std::int64_t count = std::ssize(tiles);
  tiles.push_back(kRows);
  const std::size_t floats = std::size_t{kRows} * kGroup * static_cast<std::size_t>(head_size);
  AttentionArgs args;
  args.cache = {.cache = memory.put(cache),
                .block_elements = block,
                .block_size = kBlockSize,
                .num_kv_heads = 1,
                .head_size = head_size};
  args.qkv = memory.put(qkv);
  args.block_tables = memory.put(table);
  args.rows = memory.put(rows);
  args.positions = memory.put(positions);
  args.tables = memory.put(tables);
  args.tiles = memory.put(tiles);
  args.out = memory.room<float>(floats);
  args.num_query_heads = kGroup;
  args.scale = 0.125f;
  if (!memory.status().ok()) return {};
  KernelLaunches launches(device, stream);
  memory.keep(bulk ? launches.attend_bulk(args, count, element)
                   : launches.attend_tiles(args, count, element));
  return memory.get(args.out, floats);
}

}  // namespace

Result<bool> check_bulk_attention(Device& device, StreamId stream, std::int32_t head_size, Element cache) {
  if (!KernelLaunches(device, stream)
           .supports_bulk_attention({.block_size = kBlockSize, .num_kv_heads = 1, .head_size = head_size}))
    return true;
  for (const std::uint32_t least : kLeast) {
    CheckMemory memory(device, stream);
    const auto wanted = attended(device, stream, memory, head_size, cache, least, false),
               got = attended(device, stream, memory, head_size, cache, least, true);
    if (!memory.status().ok()) return memory.status();
    if (std::memcmp(got.data(), wanted.data(), wanted.size() * sizeof(float)) != 0) return false;
  }
  return true;
}

}  // namespace pagoda::device
