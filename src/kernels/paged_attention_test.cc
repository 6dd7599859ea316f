// Goal: attention over the paged cache agrees with the reference for every instruction set, dtype, head
// size, group, block size and window; and a row's bits depend on its own sequence alone: not on the chunk
// it came in, the block table, the block size, the rest of the batch, or the threads.
#include "kernels/paged_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/kv_layout.h"
#include "kernels/testing.h"
#include "tensor/small_floats.h"

namespace pagoda {
namespace {

struct PagedShape {
  DType dtype = DType::bf16;
  std::int32_t kv_heads = 1, group = 1, head_size = 32, block_size = 16, window = 0;
  bool uneven = false;  // keys and values of very different sizes, zeros and denormals among them
  bool shaped = false;  // with sinks, slopes and a soft cap
  bool whole = false;   // all tokens of a sequence see each other
  bool chunks = false;  // chunks of `window` tokens, instead of windows
  std::int32_t latent_size = 0;
  bool value_is_key = false;  // in a cache that is not latent
  bool exact = false;         // keys and values are numbers that e4m3 has, times the layer's scales
  float key_scale = 0.021f, value_scale = 0.013f;  // e4m3's
};

// Sequences whose tokens' q, k and v depend on (seed, position) alone, run in chunks through one cache.
class PagedWorld {
 public:
  PagedWorld(const PagedShape& shape, std::vector<std::int32_t> lengths, std::uint64_t table_seed)
      : shape_(shape), lengths_(std::move(lengths)) {
    layout_ = {shape.dtype, 2, shape.kv_heads, shape.head_size, shape.block_size, shape.latent_size};
    std::int32_t blocks = 0;
    for (const std::int32_t length : lengths_) blocks += (length + shape.block_size - 1) / shape.block_size;
    std::vector<std::int32_t> order(static_cast<std::size_t>(blocks) + 3);
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1], order[random_bits(table_seed, 1, i) % i]);
    std::size_t next = 0;
    for (const std::int32_t length : lengths_) {
      const auto count = static_cast<std::size_t>((length + shape.block_size - 1) / shape.block_size);
      tables_.emplace_back(order.begin() + static_cast<std::ptrdiff_t>(next),
                           order.begin() + static_cast<std::ptrdiff_t>(next + count));
      next += count;
      computed_.push_back(0);
      outputs_.emplace_back(static_cast<std::size_t>(length) * heads() * value_size(), 0.0f);
    }
    // The contents of an unused slot must not matter: NaN.
    cache_.assign(layout_.block_bytes() * order.size() + 64, std::byte{0xff});
  }

  // Sequence s begins with the first `tokens` of sequence `from`, whole blocks, in the same memory.
  void share(std::size_t s, std::size_t from, std::int32_t tokens) {
    CHECK(tokens % shape_.block_size == 0 && computed_[from] >= tokens && computed_[s] == 0);
    std::copy_n(tables_[from].begin(), tokens / shape_.block_size, tables_[s].begin());
    computed_[s] = tokens;
  }

  // Computes the next counts[s] tokens of each sequence in one call.
  void step(const KernelContext& context, std::vector<std::int32_t> counts) {
    std::vector<AttentionSequence> sequences;
    std::vector<std::size_t> who;
    const std::size_t stride = (heads() + 2 * kv_heads()) * size() + 5;
    std::vector<float> rows;
    for (std::size_t s = 0; s < counts.size(); ++s) {
      const std::int32_t count = std::min(counts[s], lengths_[s] - computed_[s]);
      if (count == 0) continue;
      sequences.push_back(
          {static_cast<std::int32_t>(rows.size() / stride), count, computed_[s] + count, tables_[s].data()});
      who.push_back(s);
      for (std::int32_t i = 0; i < count; ++i) {
        const auto position = static_cast<std::uint64_t>(computed_[s] + i);
        std::vector<float> row = random_floats(100000 * s + position, stride, 1.5f);
        if (shape_.uneven) {
          constexpr float kFactors[] = {1, 0, 1e-40f, 3, 1e-32f, 0.01f, 1};
          const float factor = kFactors[random_bits(s, 8, position) % std::size(kFactors)];
          for (std::size_t d = heads() * size(); d < row.size(); ++d) row[d] *= factor;
        }
        const auto keys = row.begin() + static_cast<std::ptrdiff_t>(heads() * size());
        const auto width = static_cast<std::ptrdiff_t>(kv_heads() * size());
        if (shape_.value_is_key) std::copy(keys, keys + width, keys + width);
        if (shape_.exact) {
          for (std::ptrdiff_t d = 0; d < 2 * width; ++d) {
            const float scale = d < width ? shape_.key_scale : shape_.value_scale;
            keys[d] = e4m3_value(nearest_e4m3(keys[d] / scale)) * scale;
          }
        }
        rows.insert(rows.end(), row.begin(), row.end());
      }
    }
    if (sequences.empty()) return;
    std::vector<float> output(rows.size() / stride * heads() * value_size(), -1.0f);
    PagedAttentionArgs args;
    args.layout = layout_;
    args.cache = cache_.data();
    args.layer = 1;
    args.sequences = sequences;
    args.query = Buffer::of(rows.data(), static_cast<std::int64_t>(stride));
    args.key = args.query.at(0, static_cast<std::int64_t>(heads() * size()));
    if (shape_.latent_size == 0) args.value = args.key.at(0, static_cast<std::int64_t>(kv_heads() * size()));
    args.num_query_heads = shape_.kv_heads * shape_.group;
    args.scale = 1.0f / std::sqrt(static_cast<float>(shape_.head_size));
    args.key_scale = shape_.key_scale;
    args.value_scale = shape_.value_scale;
    args.causal = !shape_.whole;
    args.sliding_window = shape_.window;
    args.chunks = shape_.chunks;
    const std::vector<float> sinks = random_floats(77, heads(), 2.0f),
                             slopes = random_floats(78, heads(), 0.2f);
    if (shape_.shaped) {
      args.softcap = 1.5f;
      args.sinks = sinks.data();
      args.slopes = slopes.data();
    }
    args.output = Buffer::of(output.data(), static_cast<std::int64_t>(heads() * value_size()));
    paged_attention(context, args);
    for (std::size_t i = 0; i < who.size(); ++i) {
      const std::size_t width = heads() * value_size(), s = who[i];
      const auto from = output.begin() + static_cast<std::ptrdiff_t>(
                                             static_cast<std::size_t>(sequences[i].query_start) * width);
      std::copy(
          from,
          from + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(sequences[i].num_queries) * width),
          outputs_[s].begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(computed_[s]) * width));
      computed_[s] += sequences[i].num_queries;
    }
  }

  bool done() const { return computed_ == lengths_; }
  const std::vector<float>& output(std::size_t s) const { return outputs_[s]; }
  const std::vector<std::byte>& cache() const { return cache_; }
  const KvLayout& layout() const { return layout_; }
  // Whether another cache has the same keys and values of a sequence, wherever its blocks lie; slots behind
  // them may hold anything.
  bool same_tokens(const PagedWorld& other, std::size_t s) const {
    const KvAddress address(layout_);
    for (std::int32_t token = 0; token < lengths_[s]; ++token) {
      const std::int32_t slot = token % shape_.block_size;
      const auto block = [&](const PagedWorld& of) {
        return of.cache_.data() +
               of.tables_[s][static_cast<std::size_t>(token / shape_.block_size)] * address.block_stride;
      };
      for (std::int32_t head = 0; head < shape_.kv_heads; ++head)
        for (std::int32_t d = 0; d < layout_.head_size; ++d)
          for (const std::int64_t at : {address.key_piece(1, head) + address.key(slot, d),
                                        address.value_piece(1, head) + address.value(slot, d)})
            if (block(*this)[at] != block(other)[at]) return false;
    }
    return true;
  }
  std::size_t count() const { return lengths_.size(); }

 private:
  std::size_t heads() const { return static_cast<std::size_t>(shape_.kv_heads * shape_.group); }
  std::size_t kv_heads() const { return static_cast<std::size_t>(shape_.kv_heads); }
  std::size_t size() const { return static_cast<std::size_t>(shape_.head_size); }
  std::size_t value_size() const { return static_cast<std::size_t>(layout_.value_size()); }

  PagedShape shape_;
  std::vector<std::int32_t> lengths_, computed_;
  KvLayout layout_;
  std::vector<std::vector<std::int32_t>> tables_;
  std::vector<std::byte> cache_;
  std::vector<std::vector<float>> outputs_;
};

PagedWorld attended(const KernelContext& context, const PagedShape& shape,
                    const std::vector<std::int32_t>& lengths, std::uint64_t table_seed, std::int32_t chunk) {
  PagedWorld world(shape, lengths, table_seed);
  for (std::int32_t i = 0; !world.done(); ++i) {
    std::vector<std::int32_t> counts;
    // chunk 0: everything at once; negative: chunks of changing size.
    for (std::size_t s = 0; s < lengths.size(); ++s) {
      counts.push_back(
          chunk == 0  ? 1 << 20
          : chunk > 0 ? chunk
                      : static_cast<std::int32_t>(random_bits(5, s, static_cast<std::uint64_t>(i)) % 50));
    }
    world.step(context, counts);
  }
  return world;
}

void expect_close_worlds(const PagedWorld& actual, const PagedWorld& expected, double tolerance) {
  for (std::size_t s = 0; s < actual.count(); ++s) {
    const std::vector<float>&a = actual.output(s), &b = expected.output(s);
    for (std::size_t i = 0; i < a.size(); ++i)
      ASSERT_NEAR(a[i], b[i], tolerance) << "sequence " << s << " element " << i;
  }
}
void expect_same_worlds(const PagedWorld& a, const PagedWorld& b) {
  for (std::size_t s = 0; s < a.count(); ++s)
    EXPECT_TRUE(same_bits(a.output(s), b.output(s))) << "sequence " << s;
}

// i8: the reference rounds K and V the same way, so what differs is the 16 bits of queries and weights.
double tolerance(DType dtype) { return dtype == DType::bf16 ? 4e-2 : dtype == DType::i8 ? 3e-4 : 1e-5; }

TEST(PagedAttention, EveryLevelAgreesWithReference) {
  constexpr std::int32_t kHeadSizes[] = {8, 10, 16, 32, 48, 64, 80, 128, 256};
  constexpr std::int32_t kBlockSizes[] = {1, 2, 3, 8, 16, 17, 32, 48, 100, 256};
  constexpr std::int32_t kGroups[] = {1, 2, 3, 4, 5, 7, 8, 13};
  std::uint64_t seed = 0;
  for (const CpuLevel level : levels_here()) {
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::i8, DType::e4m3}) {
      for (int i = 0; i < 14; ++i, ++seed) {
        const auto pick = [&](std::uint64_t what, const auto& list) {
          return list[random_bits(seed, what, 1) % std::size(list)];
        };
        const PagedShape shape{
            dtype,
            1 + static_cast<std::int32_t>(seed % 3),
            pick(2, kGroups),
            pick(3, kHeadSizes),
            pick(4, kBlockSizes),
            seed % 3 == 0 ? 1 + static_cast<std::int32_t>(random_bits(seed, 5, 1) % 90) : 0,
            false,
            seed % 4 == 0};
        SCOPED_TRACE(::testing::Message()
                     << cpu_level_name(level) << " " << dtype_info(dtype).name << " heads " << shape.kv_heads
                     << "x" << shape.group << " size " << shape.head_size << " block " << shape.block_size
                     << " window " << shape.window);
        const std::vector<std::int32_t> lengths = {
            1, 17, 40, 1 + static_cast<std::int32_t>(random_bits(seed, 6, 1) % 60)};
        expect_close_worlds(attended({.backend = Backend::cpu, .level = level}, shape, lengths, seed, -1),
                            attended({.backend = Backend::reference}, shape, lengths, seed, 0),
                            tolerance(dtype));
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

TEST(PagedAttention, LongContextsAgreeWithReference) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::i8, DType::e4m3}) {
    for (const std::int32_t window : {0, 300}) {
      const PagedShape shape{dtype, 1, 3, 16, 16, window, false, window > 0};
      const KernelContext cpu;
      expect_close_worlds(attended(cpu, shape, {600, 257}, 1, 100),
                          attended({.backend = Backend::reference}, shape, {600, 257}, 1, 0),
                          tolerance(dtype));
    }
  }
}

TEST(PagedAttention, ChunksAgreeWithReference) {
  ThreadPool three(3);
  for (const CpuLevel level : levels_here()) {
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::i8, DType::e4m3}) {
      for (const std::int32_t chunk : {1, 20, 256, 300}) {
        const PagedShape shape{dtype, 1, 3, 16, 16, chunk, false, chunk == 20, false, true};
        SCOPED_TRACE(::testing::Message()
                     << cpu_level_name(level) << " " << dtype_info(dtype).name << " chunk " << chunk);
        const KernelContext cpu = {.backend = Backend::cpu, .level = level};
        const PagedWorld packed = attended(cpu, shape, {600, 257}, 1, 100);
        expect_close_worlds(packed, attended({.backend = Backend::reference}, shape, {600, 257}, 1, 0),
                            tolerance(dtype));
        expect_same_worlds(packed, attended({.backend = Backend::cpu, .level = level, .pool = &three}, shape,
                                            {600, 257}, 9, 0));
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

// Rows that are keys and, in part, values: as the reference has it, with the bits of a cache that has the
// same values for themselves, in half the memory; and the same bits in any chunks, blocks and threads.
TEST(PagedAttention, LatentRows) {
  struct Sizes {
    std::int32_t head_size, latent_size, group;
  };
  ThreadPool three(3);
  for (const CpuLevel level : levels_here()) {
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::e4m3}) {
      for (const auto& [head_size, latent_size, group] :
           {Sizes{576, 512, 16}, Sizes{48, 32, 5}, Sizes{24, 16, 3}, Sizes{32, 25, 40}, Sizes{10, 8, 130}}) {
        for (const std::int32_t block_size : {16, 7, 32}) {
          if (head_size > 500 && block_size != 16) continue;
          SCOPED_TRACE(::testing::Message() << cpu_level_name(level) << " " << dtype_info(dtype).name << " "
                                            << head_size << " block " << block_size);
          PagedShape shape{.dtype = dtype, .group = group, .head_size = head_size, .block_size = block_size};
          shape.latent_size = latent_size;
          const std::int32_t longest = group == 5 && block_size < 32 ? 270 : 40;  // the reference is slow
          const std::vector<std::int32_t> lengths = {1, longest, 33};
          const KernelContext cpu{.backend = Backend::cpu, .level = level};
          const PagedWorld latent = attended(cpu, shape, lengths, 3, 0);
          expect_close_worlds(latent, attended({.backend = Backend::reference}, shape, lengths, 3, 0),
                              tolerance(dtype));
          if (::testing::Test::HasFatalFailure()) return;
          expect_same_worlds(latent, attended(cpu, shape, lengths, 8, 1));
          expect_same_worlds(latent, attended(cpu, shape, lengths, 9, -1));
          expect_same_worlds(latent, attended({.backend = Backend::cpu, .level = level, .pool = &three},
                                              shape, lengths, 5, 0));
          PagedShape twice = shape;
          twice.latent_size = 0;
          twice.value_is_key = true;
          twice.value_scale = twice.key_scale;
          const PagedWorld doubled = attended(cpu, twice, lengths, 3, 0);
          EXPECT_EQ(2 * latent.layout().block_bytes(), doubled.layout().block_bytes());
          for (std::size_t s = 0; s < lengths.size(); ++s) {
            for (std::size_t i = 0; i < latent.output(s).size(); ++i) {
              const auto value = static_cast<std::size_t>(latent_size), head = i / value;
              ASSERT_EQ(latent.output(s)[i],
                        doubled.output(s)[head * static_cast<std::size_t>(head_size) + i % value])
                  << "sequence " << s << " element " << i;
            }
          }
        }
      }
    }
  }
}

// The first token of a chunk sees itself alone: what it attends to is its own value.
TEST(PagedAttention, AChunkBeginsAlone) {
  const PagedShape shape{DType::f32, 1, 1, 16, 16, 20, false, false, false, true};
  const KernelContext reference = {.backend = Backend::reference};
  const PagedWorld chunks = attended(reference, shape, {41}, 1, 0);
  PagedShape alone = shape;
  alone.window = 1;
  const PagedWorld own = attended(reference, alone, {41}, 1, 0);
  for (const std::size_t position : {0, 20, 40})
    EXPECT_TRUE(std::equal(own.output(0).begin() + static_cast<std::ptrdiff_t>(position * 16),
                           own.output(0).begin() + static_cast<std::ptrdiff_t>((position + 1) * 16),
                           chunks.output(0).begin() + static_cast<std::ptrdiff_t>(position * 16)))
        << position;
  EXPECT_FALSE(same_bits(own.output(0), chunks.output(0)));
}

// Long contexts, whose partitions several threads compute apart.
TEST(PagedAttention, LatentRowsOfLongContexts) {
  ThreadPool three(3);
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::e4m3}) {
    PagedShape shape{.dtype = dtype, .group = 4, .head_size = 96, .block_size = 16};
    shape.latent_size = 64;
    const PagedWorld alone = attended({}, shape, {600, 300}, 1, 0);
    expect_close_worlds(alone, attended({.backend = Backend::reference}, shape, {600, 300}, 1, 0),
                        tolerance(dtype));
    PagedWorld threads(shape, {600, 300}, 2);
    threads.step({.pool = &three}, {599, 299});
    threads.step({.pool = &three}, {1, 1});
    expect_same_worlds(alone, threads);
  }
}

TEST(PagedAttention, TokensThatAllSeeEachOther) {
  ThreadPool three(3);
  for (const CpuLevel level : levels_here()) {
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::i8, DType::e4m3}) {
      for (const std::int32_t window : {0, 1, 20, 260}) {
        for (const std::int32_t block_size : {16, 5}) {
          const PagedShape shape{dtype, 2, 2, 24, block_size, window, false, false, true};
          SCOPED_TRACE(::testing::Message() << cpu_level_name(level) << " " << dtype_info(dtype).name
                                            << " window " << window << " block " << block_size);
          const std::vector<std::int32_t> lengths = {1, 17, 300, 40};
          const PagedWorld packed = attended({.backend = Backend::cpu, .level = level}, shape, lengths, 3, 0);
          expect_close_worlds(packed, attended({.backend = Backend::reference}, shape, lengths, 3, 0),
                              tolerance(dtype));
          if (::testing::Test::HasFatalFailure()) return;
          expect_same_worlds(packed, attended({.backend = Backend::cpu, .level = level, .pool = &three},
                                              shape, lengths, 9, 0));
          // Alone: the first of a world has the numbers that the first of another has.
          const PagedWorld one = attended({.backend = Backend::cpu, .level = level}, shape, {300, 5}, 4, 0),
                           other = attended({.backend = Backend::cpu, .level = level, .pool = &three}, shape,
                                            {300}, 5, 0);
          EXPECT_TRUE(same_bits(one.output(0), other.output(0)));
        }
      }
    }
  }
}

// In plain words: with keys that are all alike, everything seen weighs the same.
TEST(PagedAttention, WhatATokenSeesOnBothSides) {
  constexpr std::int32_t kCount = 9, kSize = 16;
  for (const Backend backend : {Backend::reference, Backend::cpu}) {
    for (const std::int32_t window : {0, 3}) {
      std::vector<float> rows(kCount * 3 * kSize, 0.0f), output(kCount * kSize);
      for (std::int32_t i = 0; i < kCount; ++i)
        rows[static_cast<std::size_t>(i * 3 * kSize + 2 * kSize)] = static_cast<float>(i);
      const KvLayout layout = {DType::f32, 1, 1, kSize, 16};
      std::vector<std::byte> cache(layout.block_bytes() + 64);
      const std::int32_t block = 0;
      const AttentionSequence sequence = {0, kCount, kCount, &block};
      const Buffer row = Buffer::of(rows.data(), 3 * kSize);
      paged_attention({.backend = backend}, {.layout = layout,
                                             .cache = cache.data(),
                                             .sequences = std::span(&sequence, 1),
                                             .query = row,
                                             .key = row.at(0, kSize),
                                             .value = row.at(0, 2 * kSize),
                                             .num_query_heads = 1,
                                             .causal = false,
                                             .sliding_window = window,
                                             .output = Buffer::of(output.data(), kSize)});
      for (std::int32_t i = 0; i < kCount; ++i) {
        const std::int32_t first = window == 0 ? 0 : std::max(0, i - window + 1),
                           last = window == 0 ? kCount - 1 : std::min(kCount - 1, i + window - 1);
        EXPECT_NEAR(output[static_cast<std::size_t>(i * kSize)], (first + last) / 2.0, 1e-5) << i;
      }
    }
  }
}

TEST(PagedAttention, RowBitsDependOnTheSequenceAlone) {
  ThreadPool two(2), three(3);
  for (const CpuLevel level : levels_here()) {
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::i8, DType::e4m3}) {
      for (const std::int32_t window : {0, 70}) {
        const PagedShape shape{dtype, 2, 3, 32, 16, window, false, window > 0};
        SCOPED_TRACE(::testing::Message()
                     << cpu_level_name(level) << " " << dtype_info(dtype).name << " window " << window);
        const KernelContext alone{.backend = Backend::cpu, .level = level};
        const std::vector<std::int32_t> lengths = {130, 35, 1};
        const PagedWorld whole = attended(alone, shape, lengths, 1, 0);
        expect_same_worlds(attended(alone, shape, lengths, 2, 1), whole);   // decode, another block table
        expect_same_worlds(attended(alone, shape, lengths, 3, -1), whole);  // chunks of changing size
        for (ThreadPool* pool : {&two, &three}) {
          KernelContext threaded = alone;
          threaded.pool = pool;
          expect_same_worlds(attended(threaded, shape, lengths, 4, 64), whole);
          expect_same_worlds(attended(threaded, shape, {130}, 4, 7),
                             attended(alone, shape, {130}, 1, 0));  // alone
        }
        for (const std::int32_t block_size : {1, 5, 32, 256}) {
          PagedShape other = shape;
          other.block_size = block_size;
          expect_same_worlds(attended(alone, other, lengths, 5, 33), whole);
        }
      }
    }
  }
}

TEST(PagedAttention, SplittingALongSequenceChangesNoBit) {
  ThreadPool two(2);
  for (const DType dtype : {DType::f16, DType::bf16, DType::i8, DType::e4m3}) {
    const PagedShape shape{dtype, 1, 3, 16, 16, 0};
    const KernelContext alone, threaded{.pool = &two};
    const PagedWorld whole = attended(alone, shape, {600}, 1, 0);
    PagedWorld decode(shape, {600}, 2);
    decode.step(threaded, {560});
    while (!decode.done()) decode.step(threaded, {1});  // split over partitions
    expect_same_worlds(decode, whole);
  }
}

// So many that a thread takes all KV heads of a sequence, one sequence after the other.
TEST(PagedAttention, ManySequences) {
  ThreadPool two(2);
  for (const CpuLevel level : levels_here()) {
    for (const DType dtype : {DType::f16, DType::bf16, DType::i8, DType::e4m3}) {
      for (const std::size_t count : {9, 33, 257}) {
        const std::int32_t group = count == 9 ? 8 : count == 33 ? 3 : 1;
        for (const std::int32_t block_size : {16, 5}) {
          const PagedShape shape{dtype, 3, group, 32, block_size, 0};
          SCOPED_TRACE(::testing::Message() << cpu_level_name(level) << " " << dtype_info(dtype).name << " "
                                            << count << " sequences, block " << block_size);
          std::vector<std::int32_t> lengths;
          for (std::size_t s = 0; s < count; ++s) {
            lengths.push_back(1 +
                              static_cast<std::int32_t>(random_bits(3, s, count) % (count == 257 ? 12 : 40)));
          }
          lengths[count / 2] = count == 257 ? 41 : 300;  // beyond a partition
          const KernelContext alone{.level = level}, threaded{.level = level, .pool = &two};
          const PagedWorld prefill = attended(alone, shape, lengths, 1, 0);
          expect_same_worlds(attended(alone, shape, lengths, 2, 1), prefill);
          expect_same_worlds(attended(threaded, shape, lengths, 3, 1), prefill);
          if (count == 33)
            expect_close_worlds(prefill, attended({.backend = Backend::reference}, shape, lengths, 1, 0),
                                tolerance(dtype));
        }
      }
    }
  }
}

// Sequences that begin with the same blocks, whatever is computed beside them.
TEST(PagedAttention, SharedBlocksChangeNoBit) {
  struct Branch {
    std::size_t from;
    std::int32_t shared, length;
  };
  std::vector<Branch> tree = {{0, 0, 700},    {0, 512, 700},   {0, 608, 640}, {1, 512, 580},
                              {0, 256, 300},  {5, 0, 300},     {4, 272, 560}, {0, 240, 270},
                              {2, 624, 1100}, {8, 1024, 1060}, {8, 768, 800}};
  for (std::size_t i = 0; i < 36; ++i)  // so many that a thread takes all KV heads of a sequence
    tree.push_back({0, 512, 520 + static_cast<std::int32_t>(i % 3)});
  std::vector<std::int32_t> lengths;
  for (const Branch& branch : tree) lengths.push_back(branch.length);
  ThreadPool two(2);
  for (const CpuLevel level : levels_here()) {
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::i8, DType::e4m3}) {
      for (const std::int32_t window : {0, 400}) {
        const PagedShape shape{dtype, 2, 3, 16, 16, window, false, window > 0};
        SCOPED_TRACE(::testing::Message()
                     << cpu_level_name(level) << " " << dtype_info(dtype).name << " window " << window);
        const KernelContext alone{.level = level}, threaded{.level = level, .pool = &two};
        // The prefixes one after the other; then all that is left by itself, or together.
        const auto grow = [&](PagedWorld& world) {
          for (std::size_t s = 0; s < tree.size(); ++s) {
            if (tree[s].shared > 0) world.share(s, tree[s].from, tree[s].shared);
            std::int32_t needed = 0;
            for (const Branch& other : tree)
              if (other.from == s) needed = std::max(needed, other.shared);
            std::vector<std::int32_t> counts(tree.size(), 0);
            counts[s] = std::max(0, needed - tree[s].shared);
            world.step(alone, counts);
          }
        };
        PagedWorld single(shape, lengths, 1), together(shape, lengths, 2), chunked(shape, lengths, 3);
        grow(single);
        for (std::size_t s = 0; s < tree.size(); ++s) {
          std::vector<std::int32_t> counts(tree.size(), 0);
          counts[s] = 1 << 20;
          single.step(alone, counts);
        }
        grow(together);
        while (!together.done()) together.step(threaded, std::vector<std::int32_t>(tree.size(), 1));
        grow(chunked);
        while (!chunked.done()) {
          std::vector<std::int32_t> counts(tree.size(), 1);
          for (std::size_t s = 0; s < tree.size(); s += 2)
            counts[s] = 3 + 40 * static_cast<std::int32_t>(s % 4);
          chunked.step(alone, counts);
        }
        expect_same_worlds(together, single);
        expect_same_worlds(chunked, single);
      }
    }
  }
}

// Every level stores what the reference stores, to the byte, and what it computes from rows of any size is
// close.
TEST(PagedAttention, EightBitsAreTheReferences) {
  for (const CpuLevel level : levels_here()) {
    for (const std::int32_t block_size : {16, 32, 7}) {
      const PagedShape shape{DType::i8, 2, 3, 36, block_size, 0, true};
      SCOPED_TRACE(::testing::Message() << cpu_level_name(level) << " block " << block_size);
      const PagedWorld stored = attended({.level = level}, shape, {70, 33, 1}, 1, 0);
      const PagedWorld expected = attended({.backend = Backend::reference}, shape, {70, 33, 1}, 1, 0);
      EXPECT_EQ(stored.cache(), expected.cache());
      expect_close_worlds(stored, expected, 1e-3);
    }
  }
}

// The same of 8-bit floats, whose scales are the layer's.
TEST(PagedAttention, EightBitFloatsAreTheReferences) {
  for (const CpuLevel level : levels_here()) {
    for (const std::int32_t block_size : {16, 32, 7}) {
      const PagedShape shape{DType::e4m3, 2, 3, 36, block_size, 0, true};
      SCOPED_TRACE(::testing::Message() << cpu_level_name(level) << " block " << block_size);
      const PagedWorld stored = attended({.level = level}, shape, {70, 33, 1}, 1, 0);
      const PagedWorld expected = attended({.backend = Backend::reference}, shape, {70, 33, 1}, 1, 0);
      for (std::size_t s = 0; s < 3; ++s) EXPECT_TRUE(stored.same_tokens(expected, s));
      expect_close_worlds(stored, expected, 1e-5);
    }
  }
}

// Attention in float32 over what the bytes mean: where the scales are powers of two, to the bit.
TEST(PagedAttention, EightBitFloatsAreAttendedToInFloat32) {
  for (const CpuLevel level : levels_here()) {
    for (const std::int32_t group : {1, 5, 13}) {
      for (const std::int32_t latent_size : {0, 40}) {
        SCOPED_TRACE(::testing::Message() << cpu_level_name(level) << " " << group << " " << latent_size);
        PagedShape shape{DType::e4m3, 1, group, 48, 16, 0};
        shape.latent_size = latent_size;
        shape.exact = true;
        shape.key_scale = 1.0f / 64;
        shape.value_scale = 1.0f / 128;
        PagedShape wide = shape;
        wide.dtype = DType::f32;
        expect_same_worlds(attended({.level = level}, shape, {300, 40, 1}, 1, 0),
                           attended({.level = level}, wide, {300, 40, 1}, 2, 0));
      }
    }
  }
}

// Each number becomes the nearest that e4m3 has, of two the even one; at most 448.
TEST(PagedAttention, EightBitFloatsAreTheNearest) {
  std::vector<float> row = {0.0f,
                            -0.0f,
                            1e-30f,
                            -1e-30f,
                            0x1p-10f,
                            0x1.000002p-10f,
                            447.9f,
                            -448.0f,
                            463.999f,
                            464.001f,
                            -1e30f,
                            std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()};
  for (int bits = 0; bits < 0x7e; ++bits) {  // between two, and a little to either side
    const auto code = static_cast<std::uint8_t>(bits);
    const float middle = (e4m3_value(code) + e4m3_value(code + 1)) / 2;
    for (const float x : {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, 1e3f)})
      row.push_back(-x);
  }
  for (const float x : random_floats(4, 512 - row.size(), 300.0f)) row.push_back(x);
  const auto size = static_cast<std::int32_t>(row.size());
  std::vector<float> output(row.size());
  const std::int32_t block = 0;
  const AttentionSequence sequence{0, 1, 1, &block};
  for (const Backend backend : {Backend::reference, Backend::cpu}) {
    for (const CpuLevel level : levels_here()) {
      for (const float scale : {1.0f, 0.3f, 3e-5f}) {
        std::vector<float> scaled = row;
        for (float& x : scaled) x *= scale;
        PagedAttentionArgs args;
        args.layout = {DType::e4m3, 1, 1, size, 1};
        std::vector<std::byte> cache(args.layout.block_bytes());
        args.cache = cache.data();
        args.sequences = {&sequence, 1};
        args.query = args.key = args.value = Buffer::of(scaled.data(), size);
        args.num_query_heads = 1;
        args.scale = 1e-9f;
        args.key_scale = args.value_scale = scale;
        args.output = Buffer::of(output.data(), size);
        paged_attention({.backend = backend, .level = level}, args);
        for (std::size_t d = 0; d < row.size(); ++d) {
          // By search: none is nearer, and of two as near it has the even code.
          const double share = std::min(std::fabs(static_cast<double>(scaled[d] / scale)), 448.0);
          int best = 0x7e;
          for (int code = 0x7e; code >= 0 && !std::isnan(share); --code) {
            const double here = std::fabs(static_cast<double>(e4m3_value(static_cast<std::uint8_t>(code))) -
                                          share),
                         there = std::fabs(static_cast<double>(e4m3_value(static_cast<std::uint8_t>(best))) -
                                           share);
            if (here < there || (here == there && code % 2 == 0)) best = code;
          }
          const int sign = std::signbit(scaled[d] / scale) ? 0x80 : 0;
          ASSERT_EQ(std::to_integer<int>(cache[d]), best | sign)
              << cpu_level_name(level) << " " << scaled[d] << " over " << scale;
          ASSERT_EQ(cache[d], cache[row.size() + d]);
        }
      }
    }
  }
}

// The largest sums there are, of both signs: keys of 1 and -1 by turns, and values that tell them apart.
TEST(PagedAttention, EightBitsOfTheLargestHeadsDoNotOverflow) {
  constexpr std::int32_t kTokens = 256, kSize = kMaxInt8HeadSize, kStride = 3 * kSize;
  std::vector<float> rows(kTokens * kStride, 1.0f), output(kTokens * kSize);
  for (std::int32_t token = 0; token < kTokens; ++token) {
    float* const key = rows.data() + token * kStride + kSize;
    std::fill_n(key, kSize, token % 2 == 0 ? 1.0f : -1.0f);
    std::fill_n(key + kSize, kSize, token % 2 == 0 ? 1.0f : 0.0f);
  }
  std::vector<std::int32_t> table(kTokens / 16);
  std::iota(table.begin(), table.end(), 0);
  const AttentionSequence sequence{0, kTokens, kTokens, table.data()};
  for (const CpuLevel level : levels_here()) {
    for (const float sign : {1.0f, -1.0f}) {
      for (std::int32_t token = 0; token < kTokens; ++token)
        std::fill_n(rows.data() + token * kStride, kSize, sign);
      PagedAttentionArgs args;
      args.layout = {DType::i8, 1, 1, kSize, 16};
      std::vector<std::byte> cache(args.layout.block_bytes() * table.size());
      args.cache = cache.data();
      args.sequences = {&sequence, 1};
      args.query = Buffer::of(rows.data(), kStride);
      args.key = args.query.at(0, kSize);
      args.value = args.query.at(0, 2 * kSize);
      args.num_query_heads = 1;
      args.scale = 1.0f / kSize;
      args.output = Buffer::of(output.data(), kSize);
      paged_attention({.level = level}, args);
      const float expected =
          1.0f / (1.0f + std::exp(-2.0f * sign));  // e^sign of the ones, e^-sign of the others
      for (std::int32_t d = 0; d < kSize; ++d)
        EXPECT_NEAR(output[static_cast<std::size_t>((kTokens - 1) * kSize + d)], expected, 1e-4)
            << cpu_level_name(level) << " sign " << sign;
    }
  }
}

TEST(PagedAttention, ListsWhatWillBeRead) {
  const KvLayout layout = {
      .dtype = DType::bf16, .num_layers = 2, .num_kv_heads = 1, .head_size = 32, .block_size = 16};
  const std::vector<std::int32_t> table = {4, 0, 2, 1, 3};
  std::vector<std::byte> storage(1);
  std::byte* const cache = storage.data();  // only its address is used
  const auto layer = static_cast<std::int64_t>(layout.layer_bytes());
  const auto blocks = [&](const AttentionSequence& sequence, std::int32_t window) {
    ReadAhead out;
    list_context({},
                 {.layout = layout,
                  .cache = cache,
                  .layer = 1,
                  .sequences = std::span(&sequence, 1),
                  .sliding_window = window},
                 out);
    EXPECT_EQ(out.piece_bytes, layer);
    std::vector<std::int64_t> found;
    for (const std::byte* piece : out.pieces) {
      EXPECT_EQ((piece - cache) % (2 * layer), layer);  // layer 1
      found.push_back((piece - cache) / (2 * layer));
    }
    return found;
  };
  using Blocks = std::vector<std::int64_t>;
  const AttentionSequence decode = {.num_queries = 1, .context_len = 34, .block_table = table.data()};
  EXPECT_EQ(blocks(decode, 0), (Blocks{2, 0, 4}));
  EXPECT_EQ(blocks(decode, 17), (Blocks{2, 0}));
  const AttentionSequence prompt = {.num_queries = 40, .context_len = 40, .block_table = table.data()};
  EXPECT_EQ(blocks(prompt, 0), Blocks{});
  const AttentionSequence rest = {.num_queries = 8, .context_len = 40, .block_table = table.data()};
  EXPECT_EQ(blocks(rest, 0), (Blocks{0, 4}));

  // The first blocks of the sequence before are there already.
  const std::vector<std::int32_t> branch = {4, 0, 5};
  const AttentionSequence both[] = {
      decode, {.query_start = 1, .num_queries = 1, .context_len = 40, .block_table = branch.data()}};
  ReadAhead out;
  PagedAttentionArgs args = {.layout = layout, .cache = cache, .layer = 1, .sequences = both};
  list_context({}, args, out);
  EXPECT_EQ(out.pieces.size(), 4u);
  EXPECT_EQ(out.ends, std::vector<std::size_t>{4});

  // Each thread reads what its own rows attend to; what both begin with comes into both threads' caches.
  ThreadPool pool(2);
  list_context({.pool = &pool}, args, out);
  EXPECT_EQ(out.ends, (std::vector<std::size_t>{3, 6}));
  EXPECT_EQ(out.pieces[5], out.pieces[2]);
}

TEST(PagedAttention, CopiesBlocks) {
  std::vector<std::byte> memory(4 * 64);
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<std::byte>(i);
  const BlockPair pairs[] = {{memory.data(), memory.data() + 128}, {memory.data() + 64, memory.data() + 192}};
  copy_blocks({}, 64, pairs);
  EXPECT_TRUE(std::equal(memory.begin(), memory.begin() + 128, memory.begin() + 128));
}

}  // namespace
}  // namespace pagoda
