// Goal: norms of heads, rotation, block write and paged attention compute what kernels/reference computes,
// over random shapes; and a token's bits do not depend on the chunk it came in, on who computed it (decode's
// splits or prefill's rows), on the rest of the batch, or on where its blocks lie.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <optional>
#include <set>

#include "device/kernels/launch_shapes.h"
#include "device/test_support.h"
#include "kernels/elementwise.h"
#include "kernels/paged_attention.h"
#include "kernels/testing.h"
#include "tensor/small_floats.h"

namespace pagoda::device {
namespace {

enum class Way { rows, splits, tiles, tile_splits, tile_walk, bulk };

struct Shape {
  Element element = Element::f32;
  std::int32_t kv_heads = 1, group = 1, head_size = 32, block_size = 16, rotary = 32;
  bool norms = false, sinks = false, slopes = false, chunks = false;
  std::int32_t window = 0;
  float softcap = 0;
  std::vector<std::int32_t> lengths;

  std::int32_t heads() const { return kv_heads * group; }
  std::size_t row() const { return static_cast<std::size_t>((heads() + 2 * kv_heads) * head_size); }
  std::size_t out() const { return static_cast<std::size_t>(heads() * head_size); }
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(head_size)); }
  float key_scale() const { return element == Element::fp8 ? 0.021f : 1.0f; }
  float value_scale() const { return element == Element::fp8 ? 0.013f : 1.0f; }
};

Shape shape_of(std::uint64_t seed) {
  auto draw = [&, i = std::uint64_t{0}](std::uint64_t n) mutable {
    return static_cast<std::int32_t>(random_bits(seed, 2, i++) % n);
  };
  Shape shape;
  constexpr Element kElements[] = {Element::f32, Element::bf16, Element::i8, Element::fp8};
  shape.element = kElements[draw(4)];
  shape.kv_heads = 1 + draw(2);
  shape.group = 1 + draw(3);
  constexpr std::int32_t kSizes[] = {16, 32, 40, 64, 82};
  shape.head_size = kSizes[draw(5)];
  constexpr std::int32_t kBlocks[] = {4, 16, 17, 32};
  shape.block_size = kBlocks[draw(4)];
  shape.rotary = draw(2) == 0 ? shape.head_size : 8;
  shape.norms = draw(2) == 0;
  shape.sinks = draw(3) == 0;
  shape.slopes = seed % 3 == 1;
  shape.chunks = seed % 2 == 1;
  shape.window = draw(3) == 0 ? 1 + draw(40) : 0;
  shape.softcap = draw(3) == 0 ? 1.5f : 0;
  for (std::int32_t i = 1 + draw(3); i > 0; --i) shape.lengths.push_back(1 + draw(40));
  if (seed % 8 == 0) {  // over several splits, and little else: every multiplication takes its time here
    shape.kv_heads = shape.group = 1;
    shape.head_size = 16;
    shape.rotary = 8;
    shape.window = seed == 0 ? 0 : 150;
    shape.lengths = {(seed == 0 ? 6 : 4) * kSplitTokens + 1 + draw(20), 3};
  }
  return shape;
}

// The query, key and value rows of a token.
std::vector<float> token_row(const Shape& shape, std::size_t sequence, std::int32_t position) {
  return random_floats(1000 * sequence + static_cast<std::size_t>(position), shape.row(), 1.5f);
}

std::vector<float> turns(const Shape& shape) {
  const std::int32_t most = *std::max_element(shape.lengths.begin(), shape.lengths.end());
  std::vector<float> table;
  for (std::int32_t position = 0; position < most; ++position)
    for (const bool sine : {false, true})
      for (std::int32_t i = 0; i < shape.rotary / 2; ++i) {
        const double angle = position / std::pow(100.0, 2.0 * i / shape.rotary);
        table.push_back(static_cast<float>(sine ? std::sin(angle) : std::cos(angle)));
      }
  return table;
}

using Outputs = std::vector<std::vector<float>>;  // for each sequence, all rows

Outputs reference_outputs(const Shape& shape) {
  const auto query_norm = random_floats(501, static_cast<std::size_t>(shape.head_size));
  const auto key_norm = random_floats(502, static_cast<std::size_t>(shape.head_size));
  const auto sinks = random_floats(77, static_cast<std::size_t>(shape.heads()), 2.0f);
  const auto slopes = random_floats(78, static_cast<std::size_t>(shape.heads()), 0.3f);
  const std::vector<float> table = turns(shape);
  Outputs outputs;
  for (std::size_t s = 0; s < shape.lengths.size(); ++s) {
    const std::int32_t length = shape.lengths[s];
    std::vector<float> rows;
    std::vector<std::int32_t> positions(static_cast<std::size_t>(length));
    std::iota(positions.begin(), positions.end(), 0);
    for (const std::int32_t position : positions) {
      std::vector<float> row = token_row(shape, s, position);
      for (std::int32_t head = 0; shape.norms && head < shape.heads() + shape.kv_heads; ++head) {
        float* const x = row.data() + head * shape.head_size;
        const Buffer place = Buffer::of(x, shape.head_size);
        rms_norm(kReference, place, 1, shape.head_size, (head < shape.heads() ? query_norm : key_norm).data(),
                 1e-6f, place);
      }
      rows.insert(rows.end(), row.begin(), row.end());
    }
    const Buffer inputs = Buffer::of(rows.data(), static_cast<std::int64_t>(shape.row()));
    rope(kReference, inputs, length, shape.heads() + shape.kv_heads, shape.head_size, shape.rotary, positions,
         Buffer::of(table.data(), shape.rotary));
    PagedAttentionArgs args;
    args.layout = {shape.element == Element::f32    ? DType::f32
                   : shape.element == Element::bf16 ? DType::bf16
                   : shape.element == Element::i8   ? DType::i8
                                                    : DType::e4m3,
                   1, shape.kv_heads, shape.head_size, (length + 15) / 16 * 16};
    std::vector<std::byte> cache(args.layout.block_bytes());
    args.cache = cache.data();
    const std::int32_t block = 0;
    const AttentionSequence sequence = {0, length, length, &block};
    args.sequences = {&sequence, 1};
    const auto values_at = static_cast<std::int64_t>(shape.out());
    args.query = inputs;
    args.key = inputs.at(0, values_at);
    args.value = inputs.at(0, values_at + shape.kv_heads * shape.head_size);
    args.num_query_heads = shape.heads();
    args.scale = shape.scale();
    args.key_scale = shape.key_scale();
    args.value_scale = shape.value_scale();
    args.sliding_window = shape.window;
    args.chunks = shape.chunks;
    args.softcap = shape.softcap;
    args.sinks = shape.sinks ? sinks.data() : nullptr;
    args.slopes = shape.slopes ? slopes.data() : nullptr;
    outputs.emplace_back(static_cast<std::size_t>(length) * shape.out());
    args.output = Buffer::of(outputs.back().data(), static_cast<std::int64_t>(shape.out()));
    paged_attention(kReference, args);
  }
  return outputs;
}

// All sequences in one cache, in steps: each of up to `chunk` tokens a sequence.
class World {
 public:
  World(const Shape& shape, std::uint64_t seed) : shape_(shape), bench_(seed) {
    std::int32_t blocks = 2;
    for (const std::int32_t length : shape.lengths) {
      width_ = std::max(width_, (length + shape.block_size - 1) / shape.block_size);
      blocks += (length + shape.block_size - 1) / shape.block_size;
      outputs_.emplace_back();
    }
    std::vector<std::int32_t> order(static_cast<std::size_t>(blocks));
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1], order[random_bits(seed, 1, i) % i]);
    for (const std::int32_t length : shape.lengths) {
      for (std::int32_t i = 0; i < width_; ++i) {
        const bool has = i * shape.block_size < length;
        tables_.push_back(has ? order.back() : -1);
        if (has) order.pop_back();
      }
    }
    // Two layers in a block, of which the second is used, and what nobody writes is NaN.
    cache_.num_kv_heads = shape.kv_heads;
    cache_.head_size = shape.head_size;
    cache_.block_size = shape.block_size;
    cache_.key_scale = shape.key_scale();
    cache_.value_scale = shape.value_scale();
    const std::int32_t padded = (shape.head_size + 3) / 4 * 4;
    const std::int32_t slot = shape.element == Element::i8    ? padded + 4
                              : shape.element == Element::fp8 ? padded
                                                              : shape.head_size;
    cache_.layer_offset = std::int64_t{2} * shape.kv_heads * slot * shape.block_size;
    cache_.block_elements = 2 * cache_.layer_offset;
    cache_.cache = bench_.make<std::byte>(static_cast<std::size_t>(blocks * cache_.block_elements *
                                                                   (shape.element == Element::f32    ? 4
                                                                    : shape.element == Element::bf16 ? 2
                                                                                                     : 1)),
                                          "cache");
    tables_there_ = bench_.put(tables_, "tables");
    turns_ = bench_.put(turns(shape), "turns");
    query_norm_ = bench_.put(random_floats(501, static_cast<std::size_t>(shape.head_size)));
    key_norm_ = bench_.put(random_floats(502, static_cast<std::size_t>(shape.head_size)));
    sinks_ = bench_.put(random_floats(77, static_cast<std::size_t>(shape.heads()), 2.0f));
    slopes_ = bench_.put(random_floats(78, static_cast<std::size_t>(shape.heads()), 0.3f));
  }

  void step(const std::vector<std::int32_t>& counts, Way way) {
    std::vector<float> qkv;
    std::vector<std::int32_t> rows, positions, sequences;
    for (std::size_t s = 0; s < counts.size(); ++s) {
      const auto done = static_cast<std::int32_t>(outputs_[s].size() / shape_.out());
      for (std::int32_t p = done; p < std::min(shape_.lengths[s], done + counts[s]); ++p) {
        const std::vector<float> row = token_row(shape_, s, p);
        qkv.insert(qkv.end(), row.begin(), row.end());
        rows.push_back(static_cast<std::int32_t>(rows.size()));
        positions.push_back(p);
        sequences.push_back(static_cast<std::int32_t>(s));
      }
    }
    if (rows.empty()) return;
    const auto count = static_cast<std::int64_t>(rows.size());
    std::vector<std::int32_t> tables;
    for (const std::int32_t sequence : sequences) tables.push_back(sequence * width_);
    RopeAndWriteArgs write = {.cache = cache_,
                              .qkv = bench_.put(qkv, "qkv"),
                              .positions = bench_.put(positions),
                              .tables = bench_.put(tables),
                              .block_tables = tables_there_,
                              .cos_sin = turns_};
    write.turns = write.positions;
    if (shape_.norms) {
      write.query_norm = query_norm_;
      write.key_norm = key_norm_;
      write.norm_eps = 1e-6f;
    }
    write.num_query_heads = shape_.heads();
    write.rotary_size = shape_.rotary;
    ASSERT_TRUE(bench_.run().rope_and_write(shape_.element, write, count).ok());
    AttentionArgs args = {.cache = cache_,
                          .qkv = write.qkv,
                          .rows = bench_.put(rows),
                          .positions = write.positions,
                          .tables = write.tables,
                          .block_tables = tables_there_};
    if (shape_.sinks) args.sinks = sinks_;
    if (shape_.slopes) args.slopes = slopes_;
    args.num_query_heads = shape_.heads();
    args.window = shape_.window;
    args.chunks = shape_.chunks ? 1 : 0;
    args.scale = shape_.scale() * shape_.key_scale();
    args.softcap = shape_.softcap;
    args.out = bench_.make<float>(rows.size() * shape_.out());
    args.splits = *std::max_element(positions.begin(), positions.end()) / kSplitTokens + 1;
    if (way == Way::splits || way == Way::tile_splits) {
      args.partial = bench_.make<float>(static_cast<std::size_t>(KernelLaunches::partial_floats(args, count)),
                                        "partial");
      args.tickets = bench_.put(
          std::vector<std::uint32_t>(rows.size() * static_cast<std::size_t>(shape_.kv_heads)), "tickets");
    }
    ASSERT_TRUE(attend(way, args, sequences).ok());
    const std::vector<float> out = bench_.get(args.out, rows.size() * shape_.out());
    expect_rounded(way, args, sequences, out);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      std::vector<float>& to = outputs_[static_cast<std::size_t>(sequences[r])];
      const auto from = out.begin() + static_cast<std::ptrdiff_t>(r * shape_.out());
      to.insert(to.end(), from, from + static_cast<std::ptrdiff_t>(shape_.out()));
    }
  }

  // The same output to the nearest bfloat16, in slabs.
  void expect_rounded(Way way, AttentionArgs args, const std::vector<std::int32_t>& sequences,
                      const std::vector<float>& out) {
    const auto count = static_cast<std::int32_t>(sequences.size()),
               width = static_cast<std::int32_t>(shape_.out());
    const auto elements = static_cast<std::size_t>(slab_elements(count, width));
    args.out = nullptr;
    args.rounded = bench_.make<std::uint16_t>(elements);
    args.slab_rows = count;
    ASSERT_TRUE(attend(way, args, sequences).ok());
    const std::vector<std::uint16_t> bits = bench_.get(args.rounded, elements);
    for (std::int32_t row = 0; row < count; ++row)
      for (std::int32_t i = 0; i < width; ++i)
        ASSERT_EQ(bits[static_cast<std::size_t>(slab_place(count, row, i))],
                  float_to_bfloat16(out[static_cast<std::size_t>(row * width + i)]));
  }

  Status attend(Way way, AttentionArgs args, const std::vector<std::int32_t>& sequences) {
    const auto count = static_cast<std::int64_t>(sequences.size());
    if (way == Way::splits) return bench_.run().attend_splits(shape_.element, args, count);
    if (way == Way::rows) return bench_.run().attend_rows(shape_.element, args, count);
    if (way == Way::tile_splits) return bench_.run().attend_tile_splits(args, count, shape_.element);
    if (way == Way::tile_walk) return bench_.run().attend_tile_walk(args, count, shape_.element);
    const bool bulk = way == Way::bulk;
    const std::int32_t most =
        bulk ? KernelLaunches::bulk_rows_of_tile(shape_.heads(), shape_.kv_heads)
             : KernelLaunches::rows_of_tile(shape_.heads(), shape_.kv_heads, shape_.head_size);
    std::vector<std::int32_t> tiles = {0};
    for (std::int32_t r = 1; r < count; ++r)
      if (r - tiles.back() == most ||
          sequences[static_cast<std::size_t>(r)] != sequences[static_cast<std::size_t>(r) - 1])
        tiles.push_back(r);
    const std::int64_t num_tiles = std::ssize(tiles);
    tiles.push_back(static_cast<std::int32_t>(count));
    args.tiles = bench_.put(tiles, "tiles");
    return bulk ? bench_.run().attend_bulk(args, num_tiles, shape_.element)
                : bench_.run().attend_tiles(args, num_tiles, shape_.element);
  }

  bool done() const {
    for (std::size_t s = 0; s < outputs_.size(); ++s)
      if (outputs_[s].size() < static_cast<std::size_t>(shape_.lengths[s]) * shape_.out()) return false;
    return true;
  }
  const Outputs& outputs() const { return outputs_; }

 private:
  Shape shape_;
  KernelBench bench_;
  std::int32_t width_ = 0;
  std::vector<std::int32_t> tables_;
  CacheArgs cache_;
  std::int32_t* tables_there_ = nullptr;
  float *turns_ = nullptr, *query_norm_ = nullptr, *key_norm_ = nullptr, *sinks_ = nullptr,
        *slopes_ = nullptr;
  Outputs outputs_;
};

// All at once; or in chunks of changing sizes, computed by turns by this way and the other of the kind.
enum class Steps { one, chunks };
Outputs run(const Shape& shape, std::uint64_t seed, Steps steps, Way way) {
  const bool tiles = way != Way::rows && way != Way::splits;
  World world(shape, seed);
  for (std::uint64_t step = 0; !world.done() && !::testing::Test::HasFatalFailure(); ++step) {
    std::vector<std::int32_t> counts;
    for (std::size_t s = 0; s < shape.lengths.size(); ++s)
      counts.push_back(steps == Steps::one ? 1 << 20
                                           : static_cast<std::int32_t>(random_bits(seed, 40 + s, step) %
                                                                       (step == 0 ? 300 : 60)));
    const Way alternating = way == Way::bulk && step % 2 == 0 ? Way::bulk
                            : step % 2 == 0                   ? (tiles ? Way::tiles : Way::rows)
                            : !tiles                          ? Way::splits
                            : step % 4 == 1                   ? Way::tile_walk
                                                              : Way::tile_splits;
    world.step(counts, steps == Steps::one ? way : alternating);
  }
  return world.outputs();
}

TEST(DeviceAttention, AgreesWithTheReference) {
  for (std::uint64_t seed = 0; seed < 16; ++seed) {
    SCOPED_TRACE(seed);
    const Shape shape = shape_of(seed);
    const Outputs wanted = reference_outputs(shape), rows = run(shape, seed, Steps::one, Way::rows);
    const float tolerance =
        shape.element == Element::f32 ? 2e-5f : 2e-2f;  // 8 bits: rarely the neighbouring value
    for (std::size_t s = 0; s < wanted.size(); ++s)
      for (std::size_t i = 0; i < wanted[s].size(); ++i)
        ASSERT_NEAR(rows[s][i], wanted[s][i], tolerance) << "sequence " << s << ", element " << i;
    // The same bits by splits, and in chunks.
    const Outputs splits = run(shape, seed + 100, Steps::one, Way::splits),
                  chunks = run(shape, seed + 200, Steps::chunks, Way::rows);
    for (std::size_t s = 0; s < wanted.size(); ++s) {
      EXPECT_TRUE(same_bits(rows[s], splits[s]));
      EXPECT_TRUE(same_bits(rows[s], chunks[s]));
    }
  }
}

TEST(DeviceAttention, ALargeHead) {
  Shape shape = {.kv_heads = 1, .group = 2, .head_size = 512, .rotary = 512, .lengths = {5}};
  const Outputs wanted = reference_outputs(shape), rows = run(shape, 1, Steps::one, Way::splits);
  for (std::size_t i = 0; i < wanted[0].size(); ++i) ASSERT_NEAR(rows[0][i], wanted[0][i], 2e-5f);
}

void expect_same_bits(const Outputs& a, const Outputs& b) {
  for (std::size_t s = 0; s < a.size(); ++s) EXPECT_TRUE(same_bits(a[s], b[s])) << "sequence " << s;
}

// Queries and weights are rounded to bfloat16 there. Slots of 8 bits begin at multiples of 16 bytes.
void expect_tiles_agree(Element element, std::span<const std::int32_t> sizes) {
  for (std::uint64_t seed = 0; seed < 16; ++seed) {
    SCOPED_TRACE(seed);
    Shape shape = shape_of(seed);
    shape.element = element;
    if (element != Element::bf16 && shape.block_size == 17) shape.block_size = 12;
    if (seed % 8 != 0) {
      shape.head_size = sizes[seed % 8];
      shape.rotary = seed % 2 == 0 ? shape.head_size : 8;
      shape.group = seed == 5 ? 16 : shape.group;
    }
    const Outputs wanted = reference_outputs(shape), tiles = run(shape, seed, Steps::one, Way::tiles);
    for (std::size_t s = 0; s < wanted.size(); ++s)
      for (std::size_t i = 0; i < wanted[s].size(); ++i)
        ASSERT_NEAR(tiles[s][i], wanted[s][i], 3e-2f) << "sequence " << s << ", element " << i;
    expect_same_bits(tiles, run(shape, seed + 100, Steps::one, Way::tile_splits));
    expect_same_bits(tiles, run(shape, seed + 300, Steps::one, Way::tile_walk));
    expect_same_bits(tiles, run(shape, seed + 200, Steps::chunks, Way::tiles));
  }
}
TEST(DeviceAttention, TilesAgreeWithTheReferenceAndAmongEachOther) {
  expect_tiles_agree(Element::bf16, std::array{16, 64, 80, 128, 40, 160, 256, 8});
}
TEST(DeviceAttention, TilesOfEightBitsAgreeWithTheReferenceAndAmongEachOther) {
  expect_tiles_agree(Element::i8, std::array{16, 64, 80, 128, 48, 160, 256, 32});
}

TEST(DeviceAttention, TilesOfEightBitFloatsAgreeWithTheReferenceAndAmongEachOther) {
  expect_tiles_agree(Element::fp8, std::array{16, 64, 80, 128, 48, 160, 256, 32});
}

// The cache has the bytes of nearest_e4m3(), of keys and of values by their own scales.
TEST(DeviceAttention, EightBitFloatsAreTheNearest) {
  constexpr std::int32_t kSize = 256;
  std::vector<float> head = {0.0f,
                             -0.0f,
                             1e-30f,
                             -0x1p-10f,
                             0x1.000002p-10f,
                             463.9f,
                             464.1f,
                             -1e30f,
                             std::numeric_limits<float>::infinity(),
                             std::numeric_limits<float>::quiet_NaN()};
  for (int bits = 0; bits < 0x7e; ++bits) {  // between two
    const auto code = static_cast<std::uint8_t>(bits);
    head.push_back((bits % 2 == 0 ? 0.5f : -0.5f) *
                   (e4m3_value(code) + e4m3_value(static_cast<std::uint8_t>(code + 1))));
  }
  for (const float x : random_floats(5, kSize - head.size(), 300.0f)) head.push_back(x);
  constexpr float kKey = 0.25f, kValue = 3.0f;
  std::vector<float> qkv(kSize, 1.0f);
  for (const float scale : {kKey, kValue})
    for (const float x : head) qkv.push_back(x * scale);
  KernelBench bench(1);
  CacheArgs cache = {.cache = bench.make<std::byte>(2 * kSize, "cache"),
                     .block_elements = 2 * kSize,
                     .block_size = 1,
                     .num_kv_heads = 1,
                     .head_size = kSize,
                     .key_scale = kKey,
                     .value_scale = kValue};
  const std::vector<std::int32_t> zero = {0};
  RopeAndWriteArgs write = {.cache = cache,
                            .qkv = bench.put(qkv, "qkv"),
                            .positions = bench.put(zero),
                            .tables = bench.put(zero),
                            .block_tables = bench.put(zero)};
  write.num_query_heads = 1;
  ASSERT_TRUE(bench.run().rope_and_write(Element::fp8, write, 1).ok());
  const std::vector<std::byte> bytes = bench.get(static_cast<const std::byte*>(cache.cache), 2 * kSize);
  for (std::size_t i = 0; i < 2 * kSize; ++i)
    ASSERT_EQ(std::to_integer<int>(bytes[i]), nearest_e4m3(qkv[kSize + i] / (i < kSize ? kKey : kValue)))
        << i << " " << qkv[kSize + i];
}

// More splits than a block has warps, from the beginning and from a window's.
TEST(DeviceAttention, AWalkGoesOnBehindTheFirstSplits) {
  for (const auto& [element, window] : {std::pair(Element::bf16, 0), std::pair(Element::bf16, 300),
                                        std::pair(Element::i8, 299), std::pair(Element::fp8, 299)}) {
    SCOPED_TRACE(window);
    const Shape shape = {.element = element,
                         .kv_heads = window == 0 || tries_all() ? 2 : 1,
                         .group = 2,
                         .head_size = 16,
                         .rotary = 16,
                         .sinks = true,
                         .window = window,
                         .lengths = {600, 64, 321}};
    expect_same_bits(run(shape, 1, Steps::one, Way::tiles), run(shape, 2, Steps::one, Way::tile_walk));
  }
}

// In tiles of more rows, across splits, windows and chunks, and where a warpgroup has rows of another split
// than its neighbour, or none.
class DeviceAttentionByWarpgroups : public ::testing::TestWithParam<Element> {};
TEST_P(DeviceAttentionByWarpgroups, HasTheBitsOfTiles) {
  const Element element = GetParam();
  if (!KernelBench().device().has_warpgroups()) GTEST_SKIP() << "no warpgroups";
  const Shape shapes[] = {
      {.kv_heads = 2, .group = 4, .head_size = 64, .rotary = 64, .lengths = {90, 1, 33}},
      {.group = 1, .head_size = 128, .block_size = 8, .rotary = 8, .sinks = true, .lengths = {140}},
      {.group = 7, .head_size = 128, .rotary = 8, .slopes = true, .softcap = 1.5f, .lengths = {40, 20}},
      {.group = 2, .head_size = 64, .rotary = 64, .window = 37, .lengths = {140}},
      {.group = 3, .head_size = 64, .rotary = 64, .chunks = true, .window = 50, .lengths = {110}},
      {.group = 16, .head_size = 64, .block_size = 64, .rotary = 64, .lengths = {150}},
      // Rings are filled again, of pieces, of codes and of scales.
      {.group = 1, .head_size = 64, .rotary = 64, .lengths = {580}},
      {.group = 1, .head_size = 128, .block_size = 32, .rotary = 8, .lengths = {330}}};
  const std::set<std::uint64_t> of_all_elements = {0, 3, 6};
  for (std::uint64_t seed = 0; Shape shape : shapes) {
    const std::uint64_t index = seed++;
    if (element != Element::bf16 && !tries_all() && !of_all_elements.contains(index)) continue;
    SCOPED_TRACE(index);
    shape.element = element;
    const Outputs tiles = run(shape, index, Steps::one, Way::tiles);
    expect_same_bits(tiles, run(shape, index + 100, Steps::one, Way::bulk));
    if (index % 2 == 0) expect_same_bits(tiles, run(shape, index + 200, Steps::chunks, Way::bulk));
  }
}

INSTANTIATE_TEST_SUITE_P(Caches, DeviceAttentionByWarpgroups,
                         ::testing::Values(Element::bf16, Element::i8, Element::fp8), [](const auto& info) {
                           return info.param == Element::bf16 ? "bf16"
                                  : info.param == Element::i8 ? "i8"
                                                              : "fp8";
                         });

TEST(DeviceAttention, ManyRowsOfOneLengthAreWalked) {
  AttentionArgs args;
  args.cache.num_kv_heads = 8;
  args.splits = 16;
  EXPECT_TRUE(KernelLaunches::walks(args, 32));
  EXPECT_FALSE(KernelLaunches::walks(args, 15));  // processors would stay idle
  args.all_splits = 16 + 31 * 2;                  // a long context among short ones
  EXPECT_FALSE(KernelLaunches::walks(args, 32));
  args.all_splits = 32 * 9;
  EXPECT_TRUE(KernelLaunches::walks(args, 32));
}

TEST(DeviceAttention, WhatTilesTake) {
  EXPECT_TRUE(KernelLaunches::supports_tiles(32, 8, 128));
  EXPECT_TRUE(KernelLaunches::supports_tiles(16, 1, 256));
  for (const std::int32_t size : {4, 12, 264, 512}) EXPECT_FALSE(KernelLaunches::supports_tiles(4, 2, size));
  EXPECT_EQ(KernelLaunches::rows_of_tile(32, 8, 128), 16);
  EXPECT_EQ(KernelLaunches::rows_of_tile(16, 1, 256), 2);
}

}  // namespace
}  // namespace pagoda::device
