// Goal: decode's attention that finishes its own heads (AttentionArgs::write) gives the bits of
// rope_and_write() and attention behind it, in its output and in the cache: by splits and by walks, for each
// type of K and V, at contexts that end on either side of an edge of a block, of a piece and of a split.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/random.h"
#include "device/test_support.h"
#include "kernels/testing.h"

namespace pagoda::device {
namespace {

struct HeadsShape {
  Element element = Element::bf16;
  std::int32_t kv_heads = 1, group = 2, head_size = 16, block_size = 16, rotary = 16;
  std::int32_t window = 0;
  bool chunks = false, sinks = false, slopes = false, norms = false, centred = false, behind = false;
  float temperature = 0;
  std::vector<std::int32_t> contexts;  // one a row; 0: padding
};

struct Attended {
  std::vector<float> out;
  std::vector<std::byte> cache;
};

// The same step twice: in two launches, or in one.
class HeadsBench {
 public:
  explicit HeadsBench(const HeadsShape& shape) : shape_(shape) {}

  Attended run(bool walks, bool in_one, std::uint64_t seed) {
    KernelBench bench(seed);
    const HeadsShape& s = shape_;
    const auto rows = static_cast<std::int32_t>(s.contexts.size());
    const std::int32_t heads = s.kv_heads * s.group, width = (heads + 2 * s.kv_heads) * s.head_size;
    const std::int32_t longest = *std::ranges::max_element(s.contexts),
                       blocks = (longest + s.block_size - 1) / s.block_size;
    const std::int32_t slot = s.head_size + (s.element == Element::i8 ? 4 : 0);
    CacheArgs cache = {.block_elements = std::int64_t{4} * s.kv_heads * slot * s.block_size,
                       .layer_offset = std::int64_t{2} * s.kv_heads * slot * s.block_size,
                       .block_size = s.block_size,
                       .num_kv_heads = s.kv_heads,
                       .head_size = s.head_size};
    if (s.element == Element::fp8) cache.key_scale = 0.021f, cache.value_scale = 0.013f;
    std::vector<std::byte> content = cached(rows * blocks * cache.block_elements);
    cache.cache = bench.put(content, "cache");
    std::vector<std::int32_t> table(static_cast<std::size_t>(rows * blocks)), numbers, positions, tables;
    std::iota(table.rbegin(), table.rend(), 0);
    for (std::int32_t row = 0; row < rows; ++row) {
      const std::int32_t context = s.contexts[static_cast<std::size_t>(row)];
      numbers.push_back(row);
      positions.push_back(std::max(0, context - 1));
      tables.push_back(context > 0 ? row * blocks : -1);
    }
    std::vector<float> turns;
    for (std::int32_t i = 0; i < longest * s.rotary; ++i)
      turns.push_back(std::sin(0.37f * static_cast<float>(i)));
    const auto head_weights = [&](std::uint64_t which, std::int32_t count) {
      return bench.put(random_floats(which, static_cast<std::size_t>(count)), "weights");
    };
    RopeAndWriteArgs write = {
        .cache = cache,
        .qkv = bench.put(random_floats(9, static_cast<std::size_t>(rows * width), 1.5f), "qkv"),
        .positions = bench.put(positions),
        .tables = bench.put(tables),
        .block_tables = bench.put(table)};
    write.turns = write.positions;
    write.cos_sin = bench.put(turns);
    write.num_query_heads = heads;
    write.rotary_size = s.rotary;
    write.query_temperature = s.temperature;
    write.temperature_positions = 3;
    if (s.norms) {
      write.query_norm = head_weights(1, heads * s.head_size);
      write.key_norm = head_weights(2, s.kv_heads * s.head_size);
      write.norm_eps = 1e-6f;
      write.norm_stride = s.centred ? s.head_size : 0;
      write.centred = s.centred ? 1 : 0;
      write.norm_behind = s.behind ? 1 : 0;
    }
    AttentionArgs args = {.cache = cache,
                          .qkv = write.qkv,
                          .rows = bench.put(numbers),
                          .positions = write.positions,
                          .tables = write.tables,
                          .block_tables = write.block_tables};
    if (s.sinks) args.sinks = head_weights(3, heads);
    if (s.slopes) args.slopes = head_weights(4, heads);
    args.num_query_heads = heads;
    args.window = s.window;
    args.chunks = s.chunks ? 1 : 0;
    args.scale = 0.25f * cache.key_scale;
    args.splits = splits_of(longest);
    const auto floats = static_cast<std::size_t>(rows * heads * s.head_size);
    args.out = bench.put(std::vector<float>(floats), "out");
    args.partial = bench.make<float>(static_cast<std::size_t>(KernelLaunches::partial_floats(args, rows)));
    args.tickets = bench.put(std::vector<std::uint32_t>(static_cast<std::size_t>(rows * s.kv_heads)));
    KernelLaunches launches = bench.run();
    if (in_one)
      args.write = write;
    else
      EXPECT_TRUE(launches.rope_and_write(s.element, write, rows).ok());
    // Again, as a graph does: over counters as the first time left them.
    for (int time = 0; time < (walks ? 1 : 2); ++time) {
      EXPECT_TRUE((walks ? launches.attend_tile_walk(args, rows, s.element)
                         : launches.attend_tile_splits(args, rows, s.element))
                      .ok());
    }
    return {bench.get(args.out, floats),
            bench.get(static_cast<const std::byte*>(cache.cache), content.size())};
  }

 private:
  // Numbers everywhere, so that what should not be read or written shows as well as what is missing.
  std::vector<std::byte> cached(std::int64_t elements) const {
    std::vector<std::byte> bytes(static_cast<std::size_t>(elements) *
                                 (shape_.element == Element::bf16 ? 2 : 1));
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const auto bits = static_cast<std::uint32_t>(random_bits(3, 5, i));
      const std::uint32_t high = 0x3C | (bits & 0x80u) | (bits & 3u);
      bytes[i] = static_cast<std::byte>(shape_.element == Element::fp8    ? bits & 0xBFu
                                        : shape_.element == Element::bf16 ? (i % 2 == 1 ? high : bits & 0xFFu)
                                                                          : bits & 0xFFu);
    }
    if (shape_.element != Element::i8) return bytes;
    const auto slots = static_cast<std::size_t>(shape_.head_size * shape_.block_size),
               head = slots + 4 * static_cast<std::size_t>(shape_.block_size);
    for (std::size_t i = 0; i < bytes.size(); i += 4) {
      if (i % head < slots) continue;
      const float scale = 0.001f * static_cast<float>(1 + i % 97);
      std::memcpy(&bytes[i], &scale, sizeof scale);
    }
    return bytes;
  }

  HeadsShape shape_;
};

void expect_same_heads(const HeadsShape& shape) {
  ASSERT_TRUE(KernelLaunches::finishes_own_heads(shape.element, shape.head_size));
  for (const bool walks : {false, true}) {
    SCOPED_TRACE(testing::Message() << (walks ? "walk" : "splits") << ", head size " << shape.head_size
                                    << ", element " << static_cast<int>(shape.element));
    HeadsBench bench(shape);
    const Attended wanted = bench.run(walks, false, 1), got = bench.run(walks, true, 2);
    EXPECT_TRUE(same_bits(wanted.out, got.out));
    EXPECT_EQ(wanted.cache, got.cache);
    EXPECT_TRUE(std::ranges::any_of(wanted.out, [](float x) { return x != 0; }));
    EXPECT_TRUE(std::ranges::none_of(wanted.out, [](float x) { return std::isnan(x); }));
  }
}

constexpr std::array kHeadElements = {Element::bf16, Element::i8, Element::fp8};

TEST(DecodeHeads, ContextsEndOnEachSideOfEveryEdge) {
  for (const Element element : kHeadElements)
    expect_same_heads(
        {.element = element,
         .contexts = {1, 2, 15, 16, 17, 32, 33, 63, 64, 65, 80, 127, 128, 129, 192, 193, 0, 256, 257}});
}

TEST(DecodeHeads, HeadsOfEverySizeAndForm) {
  for (const Element element : kHeadElements) {
    expect_same_heads(
        {.element = element, .group = 4, .head_size = 128, .rotary = 128, .norms = true, .contexts = {70}});
    expect_same_heads({.element = element,
                       .kv_heads = 2,
                       .group = 3,
                       .head_size = 64,
                       .rotary = 32,
                       .window = 50,
                       .sinks = true,
                       .norms = true,
                       .centred = true,
                       .contexts = {130, 49}});
    expect_same_heads({.element = element,
                       .group = 16,
                       .head_size = 48,
                       .block_size = 8,
                       .rotary = 6,
                       .window = 40,
                       .chunks = true,
                       .slopes = true,
                       .temperature = 0.5f,
                       .contexts = {81, 120, 121}});
    expect_same_heads({.element = element,
                       .head_size = 80,
                       .block_size = 32,
                       .rotary = 80,
                       .norms = true,
                       .behind = true,
                       .contexts = {66, 1}});
    expect_same_heads(
        {.element = element, .head_size = 32, .block_size = 12, .rotary = 0, .contexts = {12, 13, 24}});
  }
  expect_same_heads({.kv_heads = 2, .group = 1, .head_size = 256, .rotary = 64, .contexts = {65, 0, 3}});
  for (const Element element : {Element::i8, Element::fp8})  // they keep the launch of its own
    EXPECT_FALSE(KernelLaunches::finishes_own_heads(element, 256));
  expect_same_heads(
      {.group = 5, .head_size = 40, .rotary = 40, .contexts = {17, 64}});  // not all of 16 elements
}

TEST(DecodeHeads, StepsOfManyRows) {
  for (const Element element : kHeadElements)
    for (const std::int32_t rows : {1, 2, 32, 130}) {
      if (!tries_all() && rows == 130 && element != Element::bf16) continue;
      HeadsShape shape = {.element = element, .contexts = {}};
      for (std::int32_t row = 0; row < rows; ++row) shape.contexts.push_back(1 + row * 37 % 150);
      expect_same_heads(shape);
    }
}

}  // namespace
}  // namespace pagoda::device
