// Goal: products with the K types are the integer sums that linear_blocks_inl.h describes: every instruction
// set with fused multiply-adds, and any number of rows, gives the same bits, at the largest numbers too.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string>

#include "kernels/amx.h"
#include "kernels/linear.h"
#include "kernels/testing.h"

namespace pagoda {
namespace {

constexpr std::int64_t kBlockOutputs = 37, kBlockDepth = 768, kBlockRows = 70;

constexpr DType kBlockTypes[] = {DType::q2_k,   DType::q3_k,    DType::q4_k,  DType::q5_k,    DType::q6_k,
                                 DType::iq4_xs, DType::iq3_xxs, DType::iq3_s, DType::iq2_xxs, DType::iq2_xs,
                                 DType::iq2_s,  DType::iq1_s,   DType::iq1_m, DType::tq1_0,   DType::tq2_0};

PackedLinear pack_blocks(const KernelContext& context, DType dtype, const std::vector<std::byte>& bytes) {
  const TensorView view = {dtype, {kBlockOutputs, kBlockDepth}, bytes.data()};
  auto packed = PackedLinear::pack(context, LinearType::int8, std::span(&view, 1));
  CHECK(packed.has_value());
  return std::move(*packed);
}

std::vector<float> block_rows(const KernelContext& context, const PackedLinear& packed, const float* x,
                              std::int64_t rows) {
  std::vector<float> y(static_cast<std::size_t>(rows * kBlockOutputs));
  linear(context, packed, LinearInput::rows(x, kBlockDepth), rows, Buffer::of(y.data(), kBlockOutputs));
  return y;
}

std::vector<CpuLevel> fused_levels() {
  std::vector<CpuLevel> levels = levels_here();
  std::erase(levels, CpuLevel::portable);
  return levels;
}

// Weights whose numbers, scales and minima are all `bits`, as far as the type has them, and d is small.
std::vector<std::byte> alike(DType dtype, int bits) {
  const auto block = static_cast<std::size_t>(dtype_info(dtype).block_bytes);
  std::vector<std::byte> bytes(block * (kBlockOutputs * kBlockDepth / 256), static_cast<std::byte>(bits));
  const ScalesAt scales = scales_at(dtype);
  const std::uint16_t d = 0x1400;
  for (std::size_t at = 0; at < bytes.size(); at += block) {
    if (scales.kind == ScaleKind::spread)
      put_spread(bytes.data() + at + scales.scale, d);
    else
      std::memcpy(bytes.data() + at + scales.scale, &d, 2);
    if (scales.minimum != 0) std::memcpy(bytes.data() + at + scales.minimum, &d, 2);
  }
  return bytes;
}

TEST(LinearBlocks, EveryLevelHasTheSameBits) {
  const std::vector<float> x = random_floats(1, kBlockRows * kBlockDepth);
  for (const DType type : kBlockTypes) {
    const std::vector<std::byte> bytes = random_weights(2, type, kBlockOutputs * kBlockDepth);
    std::vector<float> first;
    for (const CpuLevel level : fused_levels()) {
      const KernelContext context{.level = level};
      const PackedLinear packed = pack_blocks(context, type, bytes);
      for (const std::int64_t rows : {kBlockRows, std::int64_t{1}, std::int64_t{6}, std::int64_t{7},
                                      std::int64_t{16}, std::int64_t{17}, std::int64_t{33}}) {
        SCOPED_TRACE(::testing::Message()
                     << dtype_info(type).name << " " << cpu_level_name(level) << " rows " << rows);
        const std::vector<float> y = block_rows(context, packed, x.data(), rows);
        if (first.empty()) first = y;
        EXPECT_TRUE(same_bits(y, std::vector<float>(first.begin(), first.begin() + rows * kBlockOutputs)));
      }
    }
  }
}

// All rows are 1 or -1 throughout, so 127 or -127, and every number of the weights is its type's largest or
// smallest: no integer sum overflows.
TEST(LinearBlocks, TheLargestNumbersHaveRoom) {
  std::vector<float> x(kBlockRows * kBlockDepth, 1.0f);
  for (std::size_t i = kBlockDepth; i < 2 * kBlockDepth; ++i) x[i] = -1.0f;
  const KernelContext plain{.backend = Backend::reference};
  for (const DType type : kBlockTypes) {
    for (const int bits : {0xff, 0x80, 0x7f, 0x00}) {
      const std::vector<std::byte> bytes = alike(type, bits);
      const std::vector<float> expected = block_rows(plain, pack_blocks(plain, type, bytes), x.data(), 2);
      for (const CpuLevel level : levels_here()) {
        const KernelContext context{.level = level};
        const PackedLinear packed = pack_blocks(context, type, bytes);
        for (const std::int64_t rows : {std::int64_t{2}, kBlockRows}) {
          SCOPED_TRACE(::testing::Message() << dtype_info(type).name << " " << cpu_level_name(level)
                                            << " bits " << bits << " rows " << rows);
          const std::vector<float> y = block_rows(context, packed, x.data(), rows);
          for (std::size_t i = 0; i < expected.size(); ++i)
            ASSERT_NEAR(y[i], expected[i], 1e-5 * std::fabs(expected[i])) << i;
        }
      }
    }
  }
}

// Whole numbers, up to 127 in each row's 256 inputs: any 16 of them add up to `magnitude` without their
// signs, which are all alike in even rows.
std::vector<float> rows_of_magnitude(std::int64_t rows, int magnitude) {
  std::vector<float> x(static_cast<std::size_t>(rows * kBlockDepth));
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t begin = 0; begin < kBlockDepth; begin += 16) {
      int left = magnitude;
      for (std::int64_t i = 0; i < 16; ++i) {
        const auto share = static_cast<int>(std::min<std::int64_t>(127, left));
        left -= share;
        const std::int64_t at = row * kBlockDepth + begin + (i + row) % 16;
        const bool negative = row % 2 == 0 ? row % 4 == 0 : random_uniform(8, 9, at) < 0.5;
        x[static_cast<std::size_t>(at)] = static_cast<float>(negative ? -share : share);
      }
    }
  }
  return x;
}

// Sums under one scale that just fit into 16 bits, that just do not, and others: several panels, of which
// some add up two sums in 32 bits, have the bits that a row has alone. 1,023 and 1,024 times 32, 1,057 times
// 31 and 2,184 times 15 are around 2^15; of 32 inputs whose signs are alike twice the magnitude counts.
TEST(LinearBlocks, SumsAreTheSameWhetherTwoFitOrNot) {
  constexpr std::int64_t kMany = 16;
  for (const int magnitude : {127, 500, 528, 529, 1023, 1024, 1092, 1093, 2032}) {
    const std::vector<float> x = rows_of_magnitude(kMany, magnitude);
    for (const DType type : kBlockTypes) {
      for (const int bits : {-1, 0xff, 0x00}) {
        const std::vector<std::byte> bytes =
            bits < 0 ? random_weights(5, type, kBlockOutputs * kBlockDepth) : alike(type, bits);
        std::vector<float> first;
        for (const CpuLevel level : fused_levels()) {
          SCOPED_TRACE(::testing::Message() << dtype_info(type).name << " " << cpu_level_name(level)
                                            << " magnitude " << magnitude << " bits " << bits);
          const KernelContext context{.level = level};
          const PackedLinear packed = pack_blocks(context, type, bytes);
          const std::vector<float> y = block_rows(context, packed, x.data(), kMany);
          if (first.empty()) first = y;
          EXPECT_TRUE(same_bits(y, first));
          for (std::int64_t row = 0; row < kMany; ++row) {
            const std::vector<float> alone = block_rows(context, packed, x.data() + row * kBlockDepth, 1);
            EXPECT_TRUE(same_bits(alone, std::vector<float>(y.begin() + row * kBlockOutputs,
                                                            y.begin() + (row + 1) * kBlockOutputs)))
                << row;
          }
        }
      }
    }
  }
}

// A row that is not finite changes no other, and has the same bits alone as among others.
TEST(LinearBlocks, ARowOfNoNumbersIsItsOwn) {
  const std::vector<float> x = random_floats(3, kBlockRows * kBlockDepth);
  std::vector<float> odd = x;
  odd[5 * kBlockDepth + 3] = std::numeric_limits<float>::quiet_NaN();
  odd[9 * kBlockDepth + 300] = std::numeric_limits<float>::infinity();
  for (const DType type : kBlockTypes) {
    const std::vector<std::byte> bytes = random_weights(4, type, kBlockOutputs * kBlockDepth);
    for (const CpuLevel level : levels_here()) {
      SCOPED_TRACE(::testing::Message() << dtype_info(type).name << " " << cpu_level_name(level));
      const KernelContext context{.level = level};
      const PackedLinear packed = pack_blocks(context, type, bytes);
      const std::vector<float> y = block_rows(context, packed, odd.data(), kBlockRows),
                               good = block_rows(context, packed, x.data(), kBlockRows);
      for (std::int64_t row = 0; row < kBlockRows; ++row) {
        const auto part = [&](const std::vector<float>& all) {
          return std::vector<float>(all.begin() + row * kBlockOutputs,
                                    all.begin() + (row + 1) * kBlockOutputs);
        };
        const bool is_odd = row == 5 || row == 9;
        EXPECT_TRUE(same_bits(
            part(y), is_odd ? block_rows(context, packed, odd.data() + row * kBlockDepth, 1) : part(good)))
            << row;
      }
    }
  }
}

// The tests above compare AVX2 with AVX-512: here without AMX, too.
TEST(LinearBlocks, AreTheSameWithoutAmx) {
  if (!amx_allowed()) GTEST_SKIP() << "no AMX here";
  const std::string command = "PAGODA_AMX=0 '" + std::filesystem::read_symlink("/proc/self/exe").string() +
                              "' --gtest_brief=1 --gtest_filter='LinearBlocks.*'";
  EXPECT_EQ(std::system(command.c_str()), 0);
}

}  // namespace
}  // namespace pagoda
