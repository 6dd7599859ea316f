// Goal: a row comes out of its panel as the values that were packed wherever keeps_values() says so; and the
// types that tied embeddings are stored in are among those.
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/linear.h"
#include "kernels/testing.h"

namespace pagoda {
namespace {

constexpr LinearType kTypes[] = {LinearType::float32, LinearType::bfloat16, LinearType::float16,
                                 LinearType::int8};

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
  constexpr DType kKept[] = {DType::q8_0, DType::q4_0, DType::q4_1};
  return std::ranges::find(kKept, stored) != std::end(kKept);
}

struct Table {
  std::vector<std::byte> bytes;
  TensorView view;
  Table(std::uint64_t seed, DType dtype, std::int64_t n, std::int64_t k)
      : bytes(random_weights(seed, dtype, n * k)), view{dtype, {n, k}, bytes.data()} {}
};

TEST(PackedRows, AreTheValuesThatWerePacked) {
  ThreadPool pool(2);
  std::vector<KernelContext> contexts = {{.backend = Backend::reference}};
  for (const CpuLevel level : levels_here()) contexts.push_back({.level = level, .pool = &pool});
  for (const KernelContext& context : contexts) {
    for (const LinearType type : kTypes) {
      for (const DType stored : weight_types()) {
        SCOPED_TRACE(testing::Message() << cpu_level_name(context.level) << " type " << static_cast<int>(type)
                                        << " stored " << dtype_info(stored).name);
        const std::int64_t k = dtype_info(stored).block_elements == 1 ? 75 : 512;
        const Table first(1, stored, 37, k), second(2, stored, 21, k);
        const TensorView both[] = {first.view, second.view};
        const auto packed = PackedLinear::pack(context, type, both);
        ASSERT_TRUE(packed.has_value());
        if (context.backend == Backend::cpu && must_keep(type, stored)) EXPECT_TRUE(packed->keeps_values());
        if (!packed->keeps_values()) continue;
        const std::vector<std::int32_t> ids = {0, 15, 16, 36, 37, 52, 57, 3, 3};
        std::vector<float> rows(ids.size() * static_cast<std::size_t>(k)), row(static_cast<std::size_t>(k));
        packed_rows(context, *packed, ids, rows.data());
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
