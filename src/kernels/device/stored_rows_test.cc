// Goal: what stays quantised on a device is the file's weights to the last bit: products over it have the
// bits of products over the same weights widened by the host, alone and by experts.
#include "kernels/device/stored_rows.h"

#include <gtest/gtest.h>

#include <numeric>

#include "device/test_support.h"
#include "kernels/dequantize.h"
#include "kernels/testing.h"

namespace pagoda {
namespace {

using device::Element;

struct Stored {
  std::vector<std::byte> file;
  TensorView view;
};

Stored stored_of(DType dtype, std::uint64_t seed, std::int64_t rows, std::int64_t columns) {
  Stored out;
  out.file = random_weights(seed, dtype, rows * columns);
  out.view = {.dtype = dtype, .shape = {rows, columns}, .data = out.file.data()};
  return out;
}

std::vector<std::byte> on_device(Element element, const TensorView& view) {
  std::vector<std::byte> out;
  for (std::int64_t row = 0; row < view.rows(); ++row) append_row(element, view, row, out);
  EXPECT_EQ(std::ssize(out), view.rows() * device::KernelLaunches::row_bytes(element, view.columns()));
  return out;
}

class StoredRows : public testing::TestWithParam<DType> {};

TEST_P(StoredRows, ProductsHaveTheBitsOfWidenedWeights) {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    SCOPED_TRACE(seed);
    const std::int32_t rows = 3, n = 21 + static_cast<std::int32_t>(seed), k = 256 * (seed % 2 == 0 ? 1 : 2);
    const Stored weights = stored_of(GetParam(), seed, n, k);
    const auto element = quantized_element(std::span(&weights.view, 1));
    ASSERT_TRUE(element.has_value());
    const std::vector<float> x = random_floats(seed + 9, static_cast<std::size_t>(rows * k));
    const auto product = [&](Element of) {
      device::KernelBench bench(seed);
      device::LinearArgs args;
      args.x = bench.put(x);
      args.weight = bench.put(on_device(of, weights.view));
      args.y = bench.make<float>(static_cast<std::size_t>(rows * n));
      args.rows = rows;
      args.n = n;
      args.k = k;
      EXPECT_TRUE(bench.run().linear(of, args).ok());
      return bench.get(args.y, static_cast<std::size_t>(rows * n));
    };
    EXPECT_TRUE(same_bits(product(*element), product(Element::f32)));
  }
}

// By tiles, the same bits as the same weights in bfloat16. Of 4 bits with a minimum, which the kernels add in
// an order of their own (device/product_kernels_test.cc), all forms have the same bits.
TEST_P(StoredRows, ProductsByTilesAreThoseOfOtherForms) {
  const std::int32_t n = 19, k = 512;
  const Stored weights = stored_of(GetParam(), 3, n, k);
  const auto element = quantized_element(std::span(&weights.view, 1));
  ASSERT_TRUE(element.has_value());
  for (const std::int32_t rows : {2, 17, 40, 130}) {
    const std::vector<float> x = random_floats(9, static_cast<std::size_t>(rows * k));
    const auto product = [&](Element of) {
      device::KernelBench bench(1);
      device::LinearArgs args;
      args.x = bench.put(x);
      args.weight = bench.put(on_device(of, weights.view));
      args.y = bench.make<float>(static_cast<std::size_t>(rows * n));
      args.rows = rows;
      args.n = n;
      args.k = k;
      args.rounded = bench.make<std::uint16_t>(static_cast<std::size_t>(rows * k));
      EXPECT_TRUE(bench.run().linear_tiles(of, args).ok());
      return bench.get(args.y, static_cast<std::size_t>(rows * n));
    };
    const std::vector<float> kept = product(*element);
    if (*element == Element::q8 || *element == Element::q6_k)
      EXPECT_TRUE(same_bits(kept, product(Element::bf16)));
    else
      EXPECT_TRUE(same_bits(kept, product(Element::q4)));
  }
}

TEST_P(StoredRows, ExpertsToo) {
  const std::int32_t experts = 3, pairs = 6, n = 18, k = 256;
  const Stored weights = stored_of(GetParam(), 5, experts * n, k);
  const auto element = quantized_element(std::span(&weights.view, 1));
  ASSERT_TRUE(element.has_value());
  const std::vector<float> x = random_floats(9, static_cast<std::size_t>(pairs * k));
  const auto product = [&](Element of) {
    device::KernelBench bench(1);
    device::GroupedLinearArgs args;
    args.x = bench.put(x);
    args.weight = bench.put(on_device(of, weights.view));
    args.y = bench.make<float>(static_cast<std::size_t>(pairs * n));
    args.tiles = bench.put(std::vector<device::TileOfPairs>{{0, 0, 2}, {2, 2, 6}, {-1, 0, 0}, {-1, 0, 0}});
    args.slots = bench.put(std::vector<std::int32_t>{0, 3, 1, 2, 4, 5});
    args.pairs = pairs;
    args.experts = experts;
    args.n = n;
    args.k = k;
    args.pairs_of_row = 1;
    EXPECT_TRUE(bench.run().grouped_linear(of, args).ok());
    return bench.get(args.y, static_cast<std::size_t>(pairs * n));
  };
  EXPECT_TRUE(same_bits(product(*element), product(Element::f32)));
}

INSTANTIATE_TEST_SUITE_P(Types, StoredRows,
                         testing::Values(DType::q4_0, DType::q4_1, DType::q4_k, DType::q8_0, DType::q6_k),
                         [](const auto& info) { return std::string(dtype_info(info.param).name); });

TEST(StoredRowsOf, OtherAndMixedTypesAreWidened) {
  const Stored four = stored_of(DType::q4_1, 1, 2, 256), eight = stored_of(DType::q8_0, 1, 2, 256),
               six = stored_of(DType::q6_k, 1, 2, 256), plain = stored_of(DType::bf16, 1, 2, 256);
  const auto of = [](std::vector<TensorView> views) { return quantized_element(views); };
  EXPECT_EQ(of({four.view, stored_of(DType::q4_k, 2, 1, 256).view}), Element::q4);
  EXPECT_EQ(of({four.view, eight.view}), std::nullopt);
  EXPECT_EQ(of({stored_of(DType::q4_k, 2, 1, 256).view}), Element::q4_k);
  EXPECT_EQ(of({six.view}), Element::q6_k);
  EXPECT_EQ(of({six.view, stored_of(DType::q4_k, 2, 1, 256).view}), std::nullopt);
  EXPECT_EQ(of({stored_of(DType::q5_k, 1, 2, 256).view}), std::nullopt);
  EXPECT_EQ(of({plain.view}), std::nullopt);
}

}  // namespace
}  // namespace pagoda
