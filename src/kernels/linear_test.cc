// Goal: every instruction set's linear agrees with the reference over ragged shapes, all stored types and
// all arithmetic, and a row's bits depend on nothing but the row.
#include "kernels/linear.h"

#include <gtest/gtest.h>

#include "kernels/amx.h"
#include "kernels/cpu/later_reads.h"
#include "kernels/elementwise.h"
#include "kernels/read_ahead.h"
#include "kernels/reference/reference.h"
#include "kernels/testing.h"
#include "tensor/memory.h"

namespace pagoda {
namespace {

PackedLinear pack_weights(const KernelContext& context, LinearType type, const WeightBytes& weights,
                          std::vector<float> bias, LinearForm form = LinearForm::stacked) {
  auto packed = PackedLinear::pack(context, type, weights.views, std::move(bias), form);
  CHECK(packed.has_value());
  return std::move(*packed);
}

std::vector<float> packed_product(const KernelContext& context, const PackedLinear& packed, const float* x,
                                  std::int64_t rows, const LinearOutput& output = {}) {
  std::vector<float> y(static_cast<std::size_t>(rows * packed.n()), 7.0f);
  linear(context, packed, LinearInput::rows(x, packed.k()), rows, Buffer::of(y.data(), packed.n()), output);
  return y;
}

void expect_close(const std::vector<float>& actual, const std::vector<float>& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  double largest = 0;
  for (const float value : expected) largest = std::max(largest, std::fabs(static_cast<double>(value)));
  for (std::size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], tolerance * (largest + 1e-3)) << "element " << i;
  }
}

TEST(Linear, EveryLevelAgreesWithReference) {
  std::uint64_t seed = 1;
  for (const CpuLevel level : levels_here()) {
    for (const LinearType type : kLinearTypes) {
      for (const DType stored : weight_types()) {
        const std::int64_t block = dtype_info(stored).block_elements;
        for (int shape = 0; shape < 3; ++shape, ++seed) {
          const auto pick = [&](std::uint64_t what, std::int64_t n) {
            return static_cast<std::int64_t>(random_bits(seed, what, 0) % static_cast<std::uint64_t>(n));
          };
          const std::int64_t k = block * (1 + pick(0, block == 1 ? 130 : block == 32 ? 6 : 2));
          const std::int64_t n = 1 + pick(1, 70), m = shape == 0 ? 1 + pick(2, 14) : 1 + pick(2, 60);
          SCOPED_TRACE(::testing::Message()
                       << cpu_level_name(level) << " type " << static_cast<int>(type) << " stored "
                       << dtype_info(stored).name << " " << m << "x" << n << "x" << k);
          WeightBytes weights;
          weights.add(seed, stored, n, k);
          const std::vector<float> x = random_floats(seed, static_cast<std::size_t>(m * k));
          std::vector<float> bias;
          if (shape == 1) bias = random_floats(seed + 1, static_cast<std::size_t>(n));
          const KernelContext cpu{.backend = Backend::cpu, .level = level},
              plain{.backend = Backend::reference};
          expect_close(packed_product(cpu, pack_weights(cpu, type, weights, bias), x.data(), m),
                       packed_product(plain, pack_weights(plain, type, weights, bias), x.data(), m), 1e-5);
          if (::testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }
}

// Every layout, with each number of rows that makes panels of another height: narrow weights are widened in
// registers, or some inputs at a time for all rows.
TEST(Linear, EveryTypeHasTheSameBitsForAnyNumberOfRows) {
  constexpr std::int64_t kRows = 70, kN = 37;
  for (const CpuLevel level : levels_here()) {
    const KernelContext cpu{.backend = Backend::cpu, .level = level}, plain{.backend = Backend::reference};
    for (const DType stored : weight_types()) {
      SCOPED_TRACE(::testing::Message() << cpu_level_name(level) << " " << dtype_info(stored).name);
      const std::int64_t block = stored == DType::fp8 ? 128 : dtype_info(stored).block_elements;
      const std::int64_t k = (1100 + block - 1) / block * block;
      const LinearType type = multiplies_in_int8(stored) ? LinearType::int8 : LinearType::bfloat16;
      WeightBytes weights;
      weights.add(21, stored, kN, k);
      const std::vector<float> x = random_floats(22, static_cast<std::size_t>(kRows * k)),
                               bias = random_floats(23, kN);
      const PackedLinear packed = pack_weights(cpu, type, weights, bias);
      const std::vector<float> all = packed_product(cpu, packed, x.data(), kRows);
      expect_close(all, packed_product(plain, pack_weights(plain, type, weights, bias), x.data(), kRows),
                   1e-5);
      if (::testing::Test::HasFatalFailure()) return;
      for (std::int64_t m = 1; m < kRows; m += level == CpuLevel::portable ? 11 : 1) {
        const std::int64_t start = m * 37 % (kRows - m + 1);
        const auto begin = all.begin() + start * kN;
        const std::vector<float> some = packed_product(cpu, packed, x.data() + start * k, m);
        EXPECT_TRUE(same_bits(some, std::vector<float>(begin, begin + m * kN))) << m << " rows";
      }
    }
  }
}

// WeightBytes of 8-bit and 4-bit floats give the same bits as their values in bfloat16 without AMX, with
// whole blocks of a panel and without, stacked and gated.
TEST(Linear, CodesOfFloatsAreTheirValuesInBfloat16) {
  constexpr std::int64_t kRows = 21, kN = 45;
  for (const CpuLevel level : levels_here()) {
    const KernelContext cpu{.backend = Backend::cpu, .level = level};
    for (const DType stored : {DType::fp8, DType::nf4, DType::nvfp4_scaled}) {
      const std::int64_t block = dtype_info(stored).block_elements;
      for (const std::int64_t k : {block, 3 * block, std::int64_t{640}, 640 + block}) {
        SCOPED_TRACE(::testing::Message()
                     << cpu_level_name(level) << " " << dtype_info(stored).name << " " << k);
        WeightBytes codes, values;
        for (std::uint64_t seed = 31; seed < 33; ++seed) {
          codes.add(seed, stored, kN, k);
          if (stored == DType::fp8)  // one scale for all inputs of a row
            for (std::size_t at = 0; at < codes.bytes.back().size(); at += 36)
              std::memcpy(codes.bytes.back().data() + at,
                          codes.bytes.back().data() + at / static_cast<std::size_t>(k / 32 * 36) *
                                                          static_cast<std::size_t>(k / 32 * 36),
                          4);
          values.bytes.emplace_back(static_cast<std::size_t>(kN * k * 4));
          dequantize(stored, codes.bytes.back().data(), kN * k,
                     reinterpret_cast<float*>(values.bytes.back().data()));
        }
        for (const auto& bytes : values.bytes) values.views.push_back({DType::f32, {kN, k}, bytes.data()});
        const std::vector<float> x = random_floats(33, static_cast<std::size_t>(kRows * k));
        for (const LinearForm form : {LinearForm::stacked, LinearForm::gated}) {
          LinearOutput output;
          if (form == LinearForm::gated) output.activation = Activation::silu;
          const PackedLinear narrow = pack_weights(cpu, LinearType::bfloat16, codes, {}, form),
                             wide = pack_weights(cpu, LinearType::bfloat16, values, {}, form);
          if (k >= 640) EXPECT_LT(narrow.packed_bytes(), wide.packed_bytes());
          for (const std::int64_t m :
               {std::int64_t{1}, std::int64_t{3}, std::int64_t{4}, std::int64_t{12}, kRows}) {
            SCOPED_TRACE(::testing::Message() << m << " rows");
            const std::vector<float> of_codes = packed_product(cpu, narrow, x.data(), m, output),
                                     of_values = packed_product(cpu, wide, x.data(), m, output);
            if (level == CpuLevel::avx512 && amx_allowed())  // which adds the values in another order
              expect_close(of_codes, of_values, 1e-5);
            else
              EXPECT_TRUE(same_bits(of_codes, of_values));
          }
        }
      }
    }
  }
}

// So many inputs that a tile's share of the rows, by their size, is less than a panel.
TEST(Linear, InputsWiderThanACacheHolds) {
  constexpr std::int64_t kK = 40960, kN = 40, kM = 30;
  const std::vector<float> x = random_floats(1, kM * kK);
  for (const CpuLevel level : levels_here()) {
    for (const LinearType type : kLinearTypes) {
      SCOPED_TRACE(::testing::Message() << cpu_level_name(level) << " type " << static_cast<int>(type));
      WeightBytes weights;
      weights.add(2, type == LinearType::int8 ? DType::q4_1 : DType::bf16, kN, kK);
      const KernelContext cpu{.backend = Backend::cpu, .level = level}, plain{.backend = Backend::reference};
      expect_close(packed_product(cpu, pack_weights(cpu, type, weights, {}), x.data(), kM),
                   packed_product(plain, pack_weights(plain, type, weights, {}), x.data(), kM), 1e-4);
    }
  }
}

// Whether 257 rows at once, some of them, and any number of threads give the same bits.
void expect_bits_of_the_row(const KernelContext& alone, const PackedLinear& packed,
                            const LinearOutput& output) {
  static ThreadPool two(2), three(3);
  constexpr std::int64_t kRows = 257;
  const std::int64_t k = packed.k();
  const std::vector<float> x = random_floats(6, static_cast<std::size_t>(kRows * k));
  const std::vector<float> all = packed_product(alone, packed, x.data(), kRows, output);
  std::vector<std::byte> memory(4096);
  ReadAhead read_ahead;
  read_ahead.piece_bytes = 192;
  for (std::size_t i = 0; i < 20; ++i) read_ahead.pieces.push_back(memory.data() + 192 * i);
  read_ahead.ends = {6, 20};
  for (ThreadPool* pool : {&two, &three}) {
    KernelContext threaded = alone;
    threaded.pool = pool;
    threaded.read_ahead = &read_ahead;
    read_ahead.start(packed.multiplications(), kRows * packed.multiplications());
    EXPECT_TRUE(same_bits(packed_product(threaded, packed, x.data(), kRows, output), all));
  }
  for (std::int64_t m = 1; m <= 65; m += m < 20 ? 1 : 9) {
    const std::int64_t start = (m * 37) % (kRows - m);
    const auto begin = all.begin() + start * packed.n();
    for (const CpuTuning tuning : {CpuTuning::common, CpuTuning::zen3, CpuTuning::zen5, CpuTuning::intel}) {
      KernelContext reading = alone;
      reading.tuning = tuning;
      // A few rows each thread prepares for itself: anew in every call.
      reading.pool = tuning == CpuTuning::common ? &two : tuning == CpuTuning::zen3 ? &three : nullptr;
      reading.read_ahead = m % 2 == 0 ? &read_ahead : nullptr;
      read_ahead.start(0, m * packed.multiplications());
      const std::vector<float> some = packed_product(reading, packed, x.data() + start * k, m, output);
      EXPECT_TRUE(same_bits(some, std::vector<float>(begin, begin + m * packed.n()))) << " m " << m;
    }
  }
}

TEST(Linear, RowBitsDependOnTheRowAlone) {
  constexpr std::int64_t kK = 288;
  for (const CpuLevel level : levels_here()) {
    for (const LinearType type : kLinearTypes) {
      SCOPED_TRACE(::testing::Message() << cpu_level_name(level) << " type " << static_cast<int>(type));
      const KernelContext alone{.backend = Backend::cpu, .level = level};
      const DType first = type == LinearType::int8 ? DType::q4_1 : DType::f32;
      WeightBytes weights;  // two formats joined, with an odd number of strips and a ragged end
      weights.add(3, first, 80, kK);
      weights.add(4, DType::q8_0, 23, kK);
      expect_bits_of_the_row(alone, pack_weights(alone, type, weights, random_floats(5, 103)), {});
      WeightBytes gated;
      gated.add(3, first, 71, kK);
      gated.add(4, first, 71, kK);
      expect_bits_of_the_row(alone,
                             pack_weights(alone, type, gated, random_floats(5, 142), LinearForm::gated),
                             {.activation = Activation::silu});
    }
  }
}

// Every layout of 8-bit products' weights, beside another one.
TEST(Linear, RowBitsOfNarrowWeights) {
  constexpr std::int64_t kK = 512;
  for (const CpuLevel level : levels_here()) {
    for (const DType stored : {DType::q4_0, DType::q5_0, DType::q5_1, DType::iq1_m, DType::iq2_xxs,
                               DType::iq2_s, DType::iq3_xxs, DType::iq4_nl, DType::iq4_xs, DType::mxfp4,
                               DType::q2_k, DType::q3_k, DType::q4_k, DType::q5_k, DType::q6_k}) {
      SCOPED_TRACE(::testing::Message() << cpu_level_name(level) << " " << dtype_info(stored).name);
      const KernelContext alone{.backend = Backend::cpu, .level = level};
      WeightBytes weights;
      weights.add(3, stored, 48, kK);
      weights.add(4, DType::q8_0, 23, kK);
      expect_bits_of_the_row(alone, pack_weights(alone, LinearType::int8, weights, random_floats(5, 71)), {});
    }
  }
}

// The values of every activation function, of a gated pair and of one matrix, are those of the formula on
// the products; those of types that are packed otherwise in a pair are the reference's.
TEST(Linear, ActivationsOnTheWayOut) {
  constexpr std::int64_t kK = 64;
  constexpr Activation kActivations[] = {Activation::silu, Activation::gelu_tanh, Activation::gelu_erf,
                                         Activation::relu, Activation::clamped_silu};
  const KernelContext plain{.backend = Backend::reference};
  std::uint64_t seed = 1;
  for (const CpuLevel level : levels_here()) {
    const KernelContext cpu{.backend = Backend::cpu, .level = level};
    for (const LinearType type : kLinearTypes) {
      for (const DType second : {DType::q4_1, DType::q8_0}) {
        for (const std::int64_t n : {1, 16, 35, 80}) {
          for (const std::int64_t m : {1, 5, 33}) {
            if (type != LinearType::float16) ++seed;  // 8 bits round alike for these, but not for all
            WeightBytes weights;
            weights.add(seed, DType::q4_1, n, kK);
            weights.add(seed + 1, second, n, kK);
            const std::vector<float> bias = random_floats(seed, static_cast<std::size_t>(2 * n));
            std::vector<float> x = random_floats(seed, static_cast<std::size_t>(m * kK));
            for (std::int64_t i = 0; i < kK; ++i) x[static_cast<std::size_t>(i)] *= 1000;  // saturated

            const PackedLinear stacked = pack_weights(cpu, type, weights, bias);
            const std::vector<float> products = packed_product(cpu, stacked, x.data(), m);
            const PackedLinear pair = pack_weights(cpu, type, weights, bias, LinearForm::gated);
            ASSERT_EQ(pair.n(), n);
            for (const Activation f : kActivations) {
              SCOPED_TRACE(::testing::Message()
                           << cpu_level_name(level) << " type " << static_cast<int>(type) << " function "
                           << static_cast<int>(f) << " " << m << "x" << n << " " << dtype_info(second).name);
              const std::vector<float> activated =
                  packed_product(cpu, stacked, x.data(), m, {.activation = f});
              const std::vector<float> gated = packed_product(cpu, pair, x.data(), m, {.activation = f});
              for (std::size_t i = 0; i < products.size(); ++i) {
                const float expected = reference::activation(f, products[i]);
                ASSERT_NEAR(activated[i], expected, 1e-6 * (1 + std::fabs(expected))) << "output " << i;
              }
              // Sums of other panels than the stacked ones'; the clamp leaves them small beside what cancels.
              if (type == LinearType::int8 && second != DType::q4_1) {
                const PackedLinear other = pack_weights(plain, type, weights, bias, LinearForm::gated);
                expect_close(gated, packed_product(plain, other, x.data(), m, {.activation = f}), 1e-4);
                continue;
              }
              for (std::int64_t i = 0; i < m * n; ++i) {
                const auto gate = static_cast<std::size_t>(i / n * 2 * n + i % n);
                const float factor = reference::gate_factor(f, products[gate + static_cast<std::size_t>(n)]);
                const float expected = reference::activation(f, products[gate]) * factor;
                // The function's error, times the factor.
                ASSERT_NEAR(gated[static_cast<std::size_t>(i)], expected,
                            1e-6 * (1 + std::fabs(factor) + std::fabs(expected)))
                    << "output " << i;
              }
            }
          }
        }
      }
    }
  }
}

// More results than caches keep are written past them, where they lie in whole lines.
TEST(Linear, ResultsReadLateAreTheSame) {
  constexpr std::int64_t kRows = 70, kK = 40;
  ThreadPool pool(2);
  for (const CpuLevel level : levels_here()) {
    for (const LinearType type : kLinearTypes) {
      const KernelContext context{.level = level, .pool = &pool};
      for (const auto& [n, more] :
           {std::pair<std::int64_t, std::int64_t>{16384, 0}, {16380, 20}, {16390, 0}}) {
        WeightBytes weights;
        weights.add(1, DType::f16, n, kK);
        if (more > 0) weights.add(2, DType::bf16, more, kK);
        const PackedLinear packed =
            pack_weights(context, type, weights, random_floats(3, static_cast<std::size_t>(n + more)));
        const std::vector<float> x = random_floats(4, kRows * kK);
        for (const std::size_t offset : {0, 1}) {  // floats
          SCOPED_TRACE(::testing::Message() << cpu_level_name(level) << " type " << static_cast<int>(type)
                                            << " " << n << " + " << more << " outputs at " << offset);
          auto memory = Memory::reserve(static_cast<std::size_t>(kRows * (n + more) + 16) * sizeof(float));
          ASSERT_TRUE(memory.has_value());
          float* const y = memory->as<float>() + offset;
          linear(context, packed, LinearInput::rows(x.data(), kK), kRows, Buffer::of(y, packed.n()),
                 {.read_late = true});
          EXPECT_TRUE(same_bits(std::vector<float>(y, y + kRows * (n + more)),
                                packed_product(context, packed, x.data(), kRows)));
          EXPECT_EQ(y[kRows * (n + more)], 0);
        }
      }
    }
  }
}

// The same rows, in tiles of any order: two formats, a bias, a ragged end, outputs that are equal, NaNs.
TEST(Linear, TheLargestOfEachRow) {
  ThreadPool pool(3);
  for (const CpuLevel level : levels_here()) {
    for (const LinearType type : kLinearTypes) {
      for (const std::int64_t n : {1, 16, 37, 700}) {
        constexpr std::int64_t kK = 96, kRows = 150;
        const KernelContext context{.level = level, .pool = &pool};
        const std::vector<std::byte> bytes = random_weights(1, DType::q4_1, n * kK);
        WeightBytes weights;
        weights.views = {{DType::q4_1, {n, kK}, bytes.data()}, {DType::q4_1, {n, kK}, bytes.data()}};
        weights.add(2, DType::q8_0, 21, kK);
        std::vector<float> bias = random_floats(3, static_cast<std::size_t>(2 * n + 21));
        std::copy_n(bias.begin(), n, bias.begin() + n);
        const PackedLinear packed = pack_weights(context, type, weights, bias);
        std::vector<float> x = random_floats(4, kRows * kK);
        std::fill_n(x.begin() + 3 * kK, kK, std::numeric_limits<float>::quiet_NaN());
        x[5 * kK + 17] = std::numeric_limits<float>::quiet_NaN();
        for (const std::int64_t m : {1, 7, 64, 150}) {
          SCOPED_TRACE(::testing::Message() << cpu_level_name(level) << " type " << static_cast<int>(type)
                                            << " " << m << "x" << packed.n());
          const std::vector<float> y = packed_product(context, packed, x.data(), m);
          std::vector<LogitMax> largest(static_cast<std::size_t>(m));
          linear_max(context, packed, LinearInput::rows(x.data(), kK), largest);
          for (std::int64_t row = 0; row < m; ++row) {
            const LogitMax expected = reference::max_logit(std::span(y).subspan(
                static_cast<std::size_t>(row * packed.n()), static_cast<std::size_t>(packed.n())));
            const LogitMax& got = largest[static_cast<std::size_t>(row)];
            ASSERT_EQ(got.index, expected.index) << "row " << row;
            ASSERT_EQ(got.value, expected.value);
          }
        }
      }
    }
  }
}

// Straight from one matrix into the next or by way of memory: no bit differs.
TEST(Linear, APairIsOneAfterTheOther) {
  ThreadPool pool(3);
  for (const CpuLevel level : levels_here()) {
    for (const LinearType type : kLinearTypes) {
      for (const LinearForm form : {LinearForm::stacked, LinearForm::gated}) {
        for (const DType stored : {DType::bf16, DType::q4_1}) {
          for (const std::int64_t inner : {64, 96, 160, 320, 1088}) {
            constexpr std::int64_t kK = 96, kN = 37;
            const KernelContext context{.level = level, .pool = &pool};
            WeightBytes in, out;
            in.add(1, stored, inner, kK);
            if (form == LinearForm::gated) in.add(2, stored, inner, kK);
            out.add(3, stored, kN, inner);
            const PackedLinear first = pack_weights(context, type, in, {}, form),
                               second = pack_weights(context, type, out, {});
            for (const std::int64_t m : {1, 2, 7, 16, 17, 64, 150}) {
              SCOPED_TRACE(::testing::Message() << cpu_level_name(level) << " type " << static_cast<int>(type)
                                                << " " << dtype_info(stored).name << " " << m << "x" << inner
                                                << " gated " << (form == LinearForm::gated));
              const std::vector<float> x = random_floats(4, static_cast<std::size_t>(m * kK));
              const std::vector<float> start = random_floats(5, static_cast<std::size_t>(m * kN));
              std::vector<float> between(static_cast<std::size_t>(m * inner)), expected = start, y = start;
              const LinearInput input = LinearInput::rows(x.data(), kK);
              linear(context, first, input, m, Buffer::of(between.data(), first.n()),
                     {.activation = Activation::silu});
              linear(context, second, LinearInput::rows(between.data(), inner), m,
                     Buffer::of(expected.data(), second.n()), {.accumulate = true});
              linear_pair(context, first, Activation::silu, second, input, m,
                          Buffer::of(between.data(), first.n()), Buffer::of(y.data(), second.n()));
              ASSERT_EQ(y, expected);
            }
          }
        }
      }
    }
  }
}

// A tile may have more panels than there are lines to fetch.
TEST(Linear, FewBytesAreReadAhead) {
  constexpr std::int64_t kRows = 257, kK = 64, kInner = 512;
  ThreadPool pool(2);
  for (const CpuLevel level : levels_here()) {
    for (const LinearType type : kLinearTypes) {
      WeightBytes in, out;
      in.add(1, DType::q8_0, kInner, kK);
      in.add(2, DType::q8_0, kInner, kK);
      out.add(3, DType::q8_0, kK, kInner);
      KernelContext context{.level = level, .pool = &pool};
      const PackedLinear first = pack_weights(context, type, in, {}, LinearForm::gated),
                         second = pack_weights(context, type, out, {});
      const std::vector<float> x = random_floats(4, kRows * kK);
      const auto pair = [&] {
        std::vector<float> between(kRows * kInner), y(kRows * kK);
        linear_pair(context, first, Activation::silu, second, LinearInput::rows(x.data(), kK), kRows,
                    Buffer::of(between.data(), first.n()), Buffer::of(y.data(), second.n()));
        return y;
      };
      const std::vector<float> expected = pair();
      const std::vector<std::byte> memory(64);
      for (const std::size_t pieces : {1, 3, 40}) {
        ReadAhead ahead;
        ahead.piece_bytes = 64;
        ahead.pieces.assign(pieces, memory.data());
        ahead.ends = {pieces / 2, pieces};
        ahead.start(0, kRows * (first.multiplications() + second.multiplications()));
        context.read_ahead = &ahead;
        EXPECT_TRUE(same_bits(pair(), expected));
      }
      context.read_ahead = nullptr;
    }
  }
}

TEST(Linear, ReadAheadIsDealtOutWhole) {
  ReadAhead ahead;
  ahead.piece_bytes = 640;
  ahead.pieces.assign(10, nullptr);
  for (const std::vector<std::size_t>& ends : {std::vector<std::size_t>{10}, {4, 10}, {0, 10}, {3, 3, 10}}) {
    ahead.ends = ends;
    ahead.start(15, 100);
    std::vector<std::int64_t> next = {0};  // by thread: the first byte that no tile had yet
    for (std::size_t thread = 1; thread < ends.size(); ++thread)
      next.push_back(static_cast<std::int64_t>(ends[thread - 1]) * 640);
    for (const std::int64_t tiles : {7, 3, 8}) {
      const ReadAhead::Share share = ahead.take(tiles == 8 ? 90 : 30);  // more than was said
      EXPECT_NEAR(share.end - share.begin,
                  tiles == 7   ? 0.15
                  : tiles == 3 ? 0.3
                               : 0.55,
                  1e-6);  // 15 go before
      for (std::int64_t tile = 0; tile < tiles; ++tile) {
        const ReadAhead::Range range = ahead.of_tile(share, tile, tiles);
        std::int64_t& from = next[static_cast<std::size_t>(tile) % ends.size()];
        EXPECT_EQ(range.begin, from);
        EXPECT_EQ(range.begin % 64, 0);
        EXPECT_LE(range.begin, range.end);
        from = range.end;
      }
    }
    for (std::size_t thread = 0; thread < ends.size(); ++thread)
      EXPECT_EQ(next[thread], static_cast<std::int64_t>(ends[thread]) * 640);
  }
}

TEST(Linear, EachLineOfATileIsReadAheadOnce) {
  for (const std::int64_t piece_lines : {1, 2, 5, 192}) {
    const std::int64_t piece_bytes = 64 * piece_lines;
    // Not side by side in memory.
    std::vector<std::byte> memory(static_cast<std::size_t>(2 * 40 * piece_bytes));
    std::vector<const std::byte*> pieces;
    for (std::int64_t i = 0; i < 40; ++i) pieces.push_back(memory.data() + (39 - i) * 2 * piece_bytes);
    for (const std::int64_t end :
         {40 * piece_lines, 39 * piece_lines + 1, std::int64_t{3}, std::int64_t{0}}) {
      for (const std::int64_t begin : {std::int64_t{0}, std::int64_t{1}, end / 2, end}) {
        for (const std::int64_t panels : {1, 7, 100}) {
          for (const std::int64_t steps : {1, 9, 48}) {
            cpu::LaterReads reads({pieces.data(), piece_bytes}, 64 * begin, 64 * end, panels);
            const std::int64_t most = (end - begin) / (panels * steps) + 1;
            std::int64_t line = begin;
            for (std::int64_t step = 0; step < panels * steps; ++step) {
              static cpu::LaterLines lines;
              if (step % steps == 0) lines = reads.take(steps);
              const std::int64_t before = line;
              for_lines_of_step(lines, [&](const std::byte* at) {
                ASSERT_LT(line, end);
                ASSERT_EQ(at,
                          pieces[static_cast<std::size_t>(line / piece_lines)] + 64 * (line % piece_lines));
                ++line;
              });
              ASSERT_LE(line - before, most);
            }
            ASSERT_EQ(line, std::max(begin, end)) << piece_lines << " " << panels << " " << steps;
          }
        }
      }
    }
  }
}

TEST(Linear, AccumulatesAndJoinsMatrices) {
  for (const CpuLevel level : levels_here()) {
    WeightBytes weights;
    weights.add(1, DType::f16, 20, 33);
    weights.add(2, DType::bf16, 5, 33);
    const KernelContext cpu{.backend = Backend::cpu, .level = level};
    const PackedLinear packed = pack_weights(cpu, LinearType::float32, weights, random_floats(3, 25));
    const std::vector<float> x = random_floats(4, 33 * 2), start = random_floats(5, 50);
    const std::vector<float> y = packed_product(cpu, packed, x.data(), 2);
    std::vector<float> sum = start;
    linear(cpu, packed, LinearInput::rows(x.data(), 33), 2, Buffer::of(sum.data(), packed.n()),
           {.accumulate = true});
    for (std::size_t i = 0; i < sum.size(); ++i) EXPECT_EQ(sum[i], start[i] + y[i]);
    WeightBytes second;
    second.add(2, DType::bf16, 5, 33);
    const std::vector<float> alone =
        packed_product(cpu, pack_weights(cpu, LinearType::float32, second, {}), x.data(), 2);
    const std::vector<float> bias = random_floats(3, 25);
    for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(y[20 + i], alone[i] + bias[20 + i]);
  }
}

TEST(Linear, AnOpOnTheWayInIsTheOpBefore) {
  constexpr std::int64_t kRows = 21, kK = 100, kStride = 2 * kK + 3;
  const std::vector<float> x = random_floats(1, kRows * kStride), weight = random_floats(2, kK),
                           bias = random_floats(3, kK);
  std::vector<float> plain(kRows * kK), done(kRows * kK);
  for (std::int64_t row = 0; row < kRows; ++row) {
    const float* from = x.data() + row * kStride;
    std::copy(from, from + kK, plain.begin() + row * kK);
  }
  const LinearInput rows = {.x = x.data(), .stride = kStride};
  for (const CpuLevel level : levels_here()) {
    for (const LinearType type : kLinearTypes) {
      WeightBytes weights;
      weights.add(4, DType::f32, 35, kK);
      const KernelContext context{.backend = Backend::cpu, .level = level};
      const PackedLinear packed = pack_weights(context, type, weights, {});
      const auto expect_same = [&](const LinearInput& input, const char* what) {
        std::vector<float> y(static_cast<std::size_t>(kRows * packed.n()));
        linear(context, packed, input, kRows, Buffer::of(y.data(), packed.n()));
        EXPECT_TRUE(same_bits(y, packed_product(context, packed, done.data(), kRows)))
            << what << " " << cpu_level_name(level) << " type " << static_cast<int>(type);
      };
      LinearInput input = rows;
      done = plain;
      expect_same(input, "none");

      input.weight = weight.data();
      input.eps = 1e-5f;
      input.op = LinearInput::Op::rms_norm;
      rms_norm(context, Buffer::of(plain.data(), kK), kRows, kK, weight.data(), 1e-5f,
               Buffer::of(done.data(), kK));
      expect_same(input, "rms_norm");
      input.bias = bias.data();
      input.op = LinearInput::Op::layer_norm;
      layer_norm(context, Buffer::of(plain.data(), kK), kRows, kK, weight.data(), bias.data(), 1e-5f,
                 Buffer::of(done.data(), kK));
      expect_same(input, "layer_norm");
    }
  }
}

// A hostile file's scales give nonsense, not faults.
TEST(Linear, NibblesWithScalesThatAreNoNumbers) {
  for (const CpuLevel level : levels_here()) {
    for (const std::uint16_t bits : {0x7c00, 0xfc00, 0x7e00, 0x0001, 0x0000}) {
      WeightBytes weights;
      weights.add(1, DType::q4_1, 17, 64);
      std::memcpy(weights.bytes[0].data(), &bits, 2);
      const KernelContext cpu{.backend = Backend::cpu, .level = level}, plain{.backend = Backend::reference};
      const std::vector<float> x = random_floats(2, std::size_t{64} * 3);
      const std::vector<float> y = packed_product(cpu, pack_weights(cpu, LinearType::int8, weights, {}),
                                                  x.data(), 3),
                               expected = packed_product(
                                   plain, pack_weights(plain, LinearType::int8, weights, {}), x.data(), 3);
      for (std::size_t i = 0; i < y.size(); ++i) {
        EXPECT_EQ(std::isfinite(y[i]), std::isfinite(expected[i])) << bits << " element " << i;
        if (i % 17 != 0) EXPECT_NEAR(y[i], expected[i], 1e-3) << bits << " element " << i;
      }
    }
  }
}

TEST(Linear, RefusesShapesThatDoNotFit) {
  const KernelContext context;
  WeightBytes weights;
  weights.add(1, DType::f32, 4, 32);
  weights.add(2, DType::f32, 4, 16);
  EXPECT_FALSE(PackedLinear::pack(context, LinearType::float32, weights.views).has_value());
  weights.views.pop_back();
  EXPECT_FALSE(PackedLinear::pack(context, LinearType::float32, weights.views, {1, 2, 3}).has_value());
  EXPECT_FALSE(PackedLinear::pack(context, LinearType::float32, {}).has_value());
  const auto gated = [&] {
    return PackedLinear::pack(context, LinearType::float32, weights.views, {}, LinearForm::gated).has_value();
  };
  EXPECT_FALSE(gated());
  weights.add(3, DType::f32, 5, 32);
  EXPECT_FALSE(gated());
  weights.views.pop_back();
  weights.views[0].shape = {128};
  EXPECT_FALSE(PackedLinear::pack(context, LinearType::float32, weights.views).has_value());
}

TEST(Linear, ChoosesTheArithmetic) {
  EXPECT_EQ(*choose_linear_type("auto", DType::q4_1, CpuLevel::avx512), LinearType::int8);
  EXPECT_EQ(*choose_linear_type("auto", DType::f16, CpuLevel::avx512), LinearType::bfloat16);
  EXPECT_EQ(*choose_linear_type("auto", DType::f16, CpuLevel::avx2), LinearType::bfloat16);
  EXPECT_EQ(*choose_linear_type("auto", DType::f16, CpuLevel::portable), LinearType::float32);
  EXPECT_EQ(*choose_linear_type("float16", DType::f16, CpuLevel::portable), LinearType::float16);
  EXPECT_EQ(*choose_linear_type("float16", DType::q4_1, CpuLevel::avx512), LinearType::float16);
  EXPECT_EQ(*choose_linear_type("int8", DType::f32, CpuLevel::avx2), LinearType::int8);
  EXPECT_EQ(*choose_linear_type("int8", DType::q4_1, CpuLevel::avx2), LinearType::int8);
  EXPECT_FALSE(choose_linear_type("float8", DType::f32, CpuLevel::avx2).has_value());
}

// Rows may go once they are packed: in order, all of them, a large matrix in several pieces.
TEST(Linear, TellsOfRowsThatArePacked) {
  constexpr std::int64_t kRows = 40'003, kColumns = 1024;
  ThreadPool pool(2);
  const KernelContext context{.pool = &pool};
  WeightBytes weights;
  weights.add(1, DType::q8_0, 5, kColumns);
  weights.add(2, DType::q8_0, kRows, kColumns);
  const std::int64_t row_bytes = dtype_bytes(DType::q8_0, kColumns);
  std::vector<std::int64_t> told;
  std::vector<const std::byte*> next = {weights.views[0].data, weights.views[1].data};
  const auto packed = PackedLinear::pack(context, LinearType::int8, weights.views, {}, LinearForm::stacked,
                                         {}, [&](const TensorView& rows) {
                                           const std::size_t i = told.empty() ? 0 : 1;
                                           EXPECT_EQ(rows.data, next[i]);
                                           next[i] += rows.bytes();
                                           told.push_back(rows.rows());
                                         });
  ASSERT_TRUE(packed);
  EXPECT_EQ(next[0], weights.views[0].data + 5 * row_bytes);
  EXPECT_EQ(next[1], weights.views[1].data + kRows * row_bytes);
  EXPECT_GE(told.size(), 3u);
  // And it is the same matrix: the last row of a piece, and the first of the next.
  const std::vector<float> x = random_floats(3, kColumns);
  const std::vector<float> y = packed_product(context, *packed, x.data(), 1);
  for (const std::int64_t row : {told[1] - 1, told[1], kRows - 1}) {
    WeightBytes one;
    one.views = {{DType::q8_0, {1, kColumns}, weights.views[1].data + row * row_bytes}};
    EXPECT_EQ(y[static_cast<std::size_t>(5 + row)],
              packed_product(context, pack_weights(context, LinearType::int8, one, {}), x.data(), 1)[0])
        << row;
  }
}

}  // namespace
}  // namespace pagoda
