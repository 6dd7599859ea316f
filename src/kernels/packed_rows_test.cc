// Goal: a row comes out of its panel as the values that were packed wherever keeps_values() says so; and the
// types that tied embeddings are stored in are among those.
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/linear.h"
#include "kernels/testing.h"

namespace pagoda {
namespace {

// Whether panels hold the values of this type whatever they are, as long as a row's scales are alike.
bool must_keep(LinearType type, DType stored) {
  switch (type) {
    case LinearType::float32:
      return true;
    case LinearType::bfloat16:
      return stored == DType::bf16;
    case LinearType::float16:
      return stored == DType::f16;
    case LinearType::int8:
      break;
  }
  constexpr DType kKept[] = {DType::q8_0,    DType::q4_0,   DType::q4_1,   DType::q5_0,    DType::q5_1,
                             DType::q2_k,    DType::q3_k,   DType::q4_k,   DType::q5_k,    DType::q6_k,
                             DType::mxfp4,   DType::iq4_nl, DType::iq4_xs, DType::iq3_xxs, DType::iq3_s,
                             DType::iq2_xxs, DType::iq2_xs, DType::iq2_s,  DType::iq1_s,   DType::iq1_m,
                             DType::tq1_0,   DType::tq2_0};
  return std::ranges::find(kKept, stored) != std::end(kKept);
}

struct Table {
  std::vector<std::byte> bytes;
  TensorView view;
  Table(std::uint64_t seed, DType dtype, std::int64_t n, std::int64_t k)
      : bytes(random_weights(seed, dtype, n * k)), view{dtype, {n, k}, bytes.data()} {}
};

// Each four blocks get the first one's scale and minimum.
void make_groups_of_128(Table& table) {
  const auto block = static_cast<std::size_t>(dtype_info(DType::int4).block_bytes);
  for (std::size_t at = 0; at < table.bytes.size(); at += block)
    std::memcpy(table.bytes.data() + at, table.bytes.data() + at / (4 * block) * 4 * block, 8);
}

TEST(PackedRows, AreTheValuesThatWerePacked) {
  ThreadPool pool(2);
  std::vector<KernelContext> contexts = {{.backend = Backend::reference}};
  for (const CpuLevel level : levels_here()) contexts.push_back({.level = level, .pool = &pool});
  for (const KernelContext& context : contexts) {
    for (const LinearType type : kLinearTypes) {
      for (const DType stored : weight_types()) {
        SCOPED_TRACE(::testing::Message() << cpu_level_name(context.level) << " type "
                                          << static_cast<int>(type) << " stored " << dtype_info(stored).name);
        const std::int64_t k = dtype_info(stored).block_elements == 1 ? 75 : 512;
        const Table first(1, stored, 37, k), second(2, stored, 21, k);
        const TensorView both[] = {first.view, second.view};
        const auto packed = PackedLinear::pack(context, type, both);
        ASSERT_TRUE(packed.has_value());
        if (context.backend == Backend::cpu && must_keep(type, stored)) EXPECT_TRUE(packed->keeps_values());
        if (!packed->keeps_values()) continue;
        const std::vector<std::int32_t> ids = {0, 15, 16, 36, 37, 52, 57, 3, 3};
        std::vector<float> rows(ids.size() * static_cast<std::size_t>(k)), row(static_cast<std::size_t>(k));
        packed_rows(context, *packed, ids, Buffer::of(rows.data(), packed->k()));
        for (std::size_t i = 0; i < ids.size(); ++i) {
          const bool of_first = ids[i] < 37;
          dequantize_row(of_first ? first.view : second.view, of_first ? ids[i] : ids[i] - 37, row.data());
          for (std::size_t j = 0; j < row.size(); ++j)
            ASSERT_EQ(rows[i * row.size() + j], row[j]) << "row " << ids[i] << " column " << j;
        }
      }
    }
  }
}

// A token reads no more than the file has, of the types whose panels hold the file's bits.
TEST(PackedRows, TakeLittleMoreThanTheFile) {
  constexpr std::int64_t kN = 64, kK = 4096;
  const auto packed_bytes = [](const Table& table) {
    const auto packed = PackedLinear::pack({}, LinearType::int8, std::span(&table.view, 1));
    EXPECT_TRUE(packed.has_value());
    return packed ? static_cast<double>(packed->packed_bytes()) : 0;
  };
  for (const DType stored :
       {DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1, DType::q8_0, DType::q2_k, DType::q3_k,
        DType::q4_k, DType::q5_k, DType::q6_k, DType::iq4_nl, DType::iq4_xs, DType::mxfp4}) {
    // MXFP4's scales are bytes, which get half precision.
    const double most = stored == DType::mxfp4 ? 1.07 : 1.04;
    EXPECT_LE(packed_bytes(Table(1, stored, kN, kK)),
              most * static_cast<double>(dtype_bytes(stored, kN * kK)))
        << dtype_info(stored).name;
  }
  // Points and signs as the file has them, where they can be looked up.
  for (const DType stored : {DType::iq2_xxs, DType::iq2_xs, DType::iq3_xxs})
    if (detected_cpu_level() == CpuLevel::avx512)
      EXPECT_EQ(packed_bytes(Table(1, stored, kN, kK)), static_cast<double>(dtype_bytes(stored, kN * kK)))
          << dtype_info(stored).name;
  // Else numbers of 4 bits or, with a scale for 16 of them, 3.
  for (const DType stored : {DType::iq3_xxs, DType::iq3_s})
    EXPECT_LE(packed_bytes(Table(1, stored, kN, kK)), 4.38 / 8 * kN * kK) << dtype_info(stored).name;
  for (const DType stored :
       {DType::iq2_xxs, DType::iq2_xs, DType::iq2_s, DType::iq1_s, DType::iq1_m, DType::tq1_0, DType::tq2_0})
    EXPECT_LE(packed_bytes(Table(1, stored, kN, kK)), 3.57 / 8 * kN * kK) << dtype_info(stored).name;
  // AWQ's and GPTQ's: 4 bits, and for 128 of them a scale of 16 bits and a zero point of 4.
  Table grouped(1, DType::int4, kN, kK);
  EXPECT_LE(packed_bytes(grouped), 5.01 / 8 * kN * kK);
  make_groups_of_128(grouped);
  EXPECT_LE(packed_bytes(grouped), 1.03 * (4 + 20.0 / 128) / 8 * kN * kK);
}

// Folders of 8-bit and 4-bit floats; a scale is for 128 inputs, for 64, and for 16 an e4m3 number.
TEST(PackedRows, CodesOfFloatsTakeTheirBits) {
  constexpr std::int64_t kN = 64, kK = 4096;
  const std::pair<DType, double> kBits[] = {
      {DType::fp8, 8.25}, {DType::nf4, 4.5}, {DType::nvfp4_scaled, 4.5}};
  for (const auto& [stored, bits] : kBits) {
    const Table table(1, stored, kN, kK);
    const auto packed = PackedLinear::pack({}, LinearType::bfloat16, std::span(&table.view, 1));
    ASSERT_TRUE(packed.has_value());
    EXPECT_LE(static_cast<double>(packed->packed_bytes()), 1.005 * bits / 8 * kN * kK)
        << dtype_info(stored).name;
    EXPECT_TRUE(packed->keeps_values());
  }
}

TEST(PackedRows, AreEstimatedAsTheyAre) {
  constexpr std::int64_t kN = 64, kK = 4096;
  for (const DType stored : weight_types()) {
    if (!is_quantized(stored) || stored == DType::int4) continue;
    const Table table(1, stored, kN, kK);
    const LinearType type = multiplies_in_int8(stored) ? LinearType::int8 : LinearType::bfloat16;
    const auto packed = PackedLinear::pack({}, type, std::span(&table.view, 1));
    ASSERT_TRUE(packed.has_value());
    EXPECT_NEAR(static_cast<double>(estimated_packed_bytes(stored, kN * kK)) /
                    static_cast<double>(packed->packed_bytes()),
                1, 0.005)
        << dtype_info(stored).name;
  }
}

// A scale and a minimum for 128 inputs once, or with each 32 of them: the same bits come out.
TEST(PackedRows, GroupsOf128AreKeptOnce) {
  constexpr std::int64_t kN = 40, kK = 512;
  for (const CpuLevel level : levels_here()) {
    const KernelContext context{.level = level};
    Table grouped(1, DType::int4, kN, kK);
    make_groups_of_128(grouped);
    Table other(1, DType::int4, kN, kK);
    other.bytes = grouped.bytes;
    other.bytes.resize(other.bytes.size() + static_cast<std::size_t>(dtype_bytes(DType::int4, kK)));
    // One more row, whose minima differ within a group.
    const Table last(7, DType::int4, 1, kK);
    std::ranges::copy(last.bytes, other.bytes.end() - std::ssize(last.bytes));
    other.view = {DType::int4, {kN + 1, kK}, other.bytes.data()};
    const auto once = PackedLinear::pack(context, LinearType::int8, std::span(&grouped.view, 1));
    const auto four_times = PackedLinear::pack(context, LinearType::int8, std::span(&other.view, 1));
    ASSERT_TRUE(once && four_times);
    EXPECT_LT(once->packed_bytes(), four_times->packed_bytes());
    for (const std::int64_t m : {1, 5, 33}) {
      const std::vector<float> x = random_floats(4, static_cast<std::size_t>(m * kK));
      std::vector<float> y(static_cast<std::size_t>(m * kN)), z(static_cast<std::size_t>(m * (kN + 1)));
      linear(context, *once, LinearInput::rows(x.data(), kK), m, Buffer::of(y.data(), once->n()));
      linear(context, *four_times, LinearInput::rows(x.data(), kK), m, Buffer::of(z.data(), four_times->n()));
      for (std::int64_t i = 0; i < m * kN; ++i)
        ASSERT_EQ(y[static_cast<std::size_t>(i)], z[static_cast<std::size_t>(i / kN * (kN + 1) + i % kN)]);
    }
  }
}

// A scale that is too small beside its row's largest, or has too many digits, becomes another one: the panel
// says so.
TEST(PackedRows, ARoundedScaleIsNoticed) {
  for (const CpuLevel level : levels_here()) {
    const KernelContext context{.level = level};
    Table table(1, DType::q8_0, 16, 128);
    const TensorView* const view = &table.view;
    EXPECT_TRUE(PackedLinear::pack(context, LinearType::int8, std::span(view, 1))->keeps_values());
    const std::uint16_t large = float_to_half(60000.0f), small = float_to_half(1.234e-5f);
    std::memcpy(table.bytes.data(), &large, 2);
    std::memcpy(table.bytes.data() + 34, &small, 2);
    EXPECT_FALSE(PackedLinear::pack(context, LinearType::int8, std::span(view, 1))->keeps_values());
    const Table wide(2, DType::int4, 16, 128);  // scales in float32
    EXPECT_FALSE(PackedLinear::pack(context, LinearType::int8, std::span(&wide.view, 1))->keeps_values());
  }
}

}  // namespace
}  // namespace pagoda
