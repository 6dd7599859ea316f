// Goal: products by tiles compute what the rounded matrices give, over random shapes, weights of every kind,
// bias and accumulation; and an element's bits depend on its own row and column alone: not on the rows beside
// it, on where its row lies in a batch, or on the form that computes it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "device/kernels/launch_shapes.h"
#include "device/product_test_support.h"

namespace pagoda::device {
namespace {

using ProductForm = KernelLaunches::ProductForm;
constexpr ProductForm kForms[] = {ProductForm::few, ProductForm::several, ProductForm::some,
                                  ProductForm::wide, ProductForm::many};

struct ProductCase {
  Element element = Element::bf16;
  std::size_t rows = 1, n = 8, k = 128;
  bool with_bias = false, accumulate = false;
  std::uint64_t seed = 0;

  Weights weights() const { return random_weights(element, seed, n, k); }
  std::vector<float> x() const { return random_floats(seed + 50, rows * k); }
  std::vector<float> bias() const { return random_floats(seed + 70, n); }
  std::vector<float> before() const { return random_floats(seed + 80, rows * n); }
};

// Rows [first, first + count) by themselves; of an emulated device with clusters of blocks, or without.
std::vector<float> product_in_form(const ProductCase& of, ProductForm form, std::size_t first,
                                   std::size_t count, bool clusters = true) {
  KernelBench bench({.seed = of.seed + first + count, .clusters = clusters});
  LinearArgs args;
  args.x = bench.put(part(of.x(), first * of.k, count * of.k), "x");
  args.weight = bench.put(of.weights().stored, "weights");
  if (of.with_bias) args.bias = bench.put(of.bias(), "bias");
  args.y = of.accumulate ? bench.put(part(of.before(), first * of.n, count * of.n), "y")
                         : bench.make<float>(count * of.n, "y");
  args.rows = static_cast<std::int32_t>(count);
  args.n = static_cast<std::int32_t>(of.n);
  args.k = static_cast<std::int32_t>(of.k);
  args.accumulate = of.accumulate ? 1 : 0;
  args.rounded = room_for_rounded(bench, count, of.k);
  const Status status = bench.run().linear_tiles(of.element, args, form);
  EXPECT_TRUE(status.ok()) << status.message();
  return bench.get(args.y, count * of.n);
}

void expect_right(const ProductCase& of, const std::vector<float>& got) {
  const auto x = of.x(), values = of.weights().values, bias = of.bias(), before = of.before();
  ASSERT_EQ(got.size(), of.rows * of.n);
  for (std::size_t r = 0; r < of.rows; ++r)
    for (std::size_t c = 0; c < of.n; ++c) {
      double sum = (of.accumulate ? before[r * of.n + c] : 0) + (of.with_bias ? bias[c] : 0), size = 1;
      for (std::size_t i = 0; i < of.k; ++i) {
        const double term = static_cast<double>(rounded(x[r * of.k + i])) * values[c * of.k + i];
        sum += term;
        size += std::abs(term);
      }
      // An element that is left out, or taken from a neighbour, is larger than that.
      ASSERT_NEAR(got[r * of.n + c], sum, 2e-5 * size) << "row " << r << ", column " << c;
    }
}

TEST(ProductKernels, AreRightOverRandomShapes) {
  for (std::uint64_t seed = 0; seed < 5 * std::size(kTileElements); ++seed) {
    const ProductForm form = kForms[seed % std::size(kForms)];
    const Element element = tile_element(seed / 5);
    const std::size_t step = step_of(element);
    const ProductCase of = {.element = element,
                            .rows = between(seed, 0, 1, form == ProductForm::few ? 20 : 70),
                            .n = between(seed, 1, 1, 70),
                            .k = step * between(seed, 2, 1, 400 / step),
                            .with_bias = seed % 2 == 0,
                            .accumulate = seed / 4 % 2 == 0,
                            .seed = seed};
    SCOPED_TRACE(::testing::Message()
                 << "seed " << seed << ": " << of.rows << " x " << of.n << " x " << of.k);
    expect_right(of, product_in_form(of, form, 0, of.rows));
  }
}

// Each form goes through its ring of stages more than once.
TEST(ProductKernels, AreRightOverManyStages) {
  for (const Element element : kTileElements)
    for (const ProductForm form : kForms) {
      const ProductCase of = {.element = element, .rows = 3, .n = 11, .k = 1664, .seed = 5};
      SCOPED_TRACE(::testing::Message() << static_cast<int>(element) << " form " << static_cast<int>(form));
      expect_right(of, product_in_form(of, form, 0, of.rows));
    }
}

// Blocks that share their copies of x, and those of devices without clusters, which bring it themselves: the
// same bits, over several tiles of rows and of columns, the last of which are there in part, or fill up a
// cluster.
TEST(ProductKernels, ClustersHaveTheBitsOfBlocksAlone) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const Element element = tile_element(seed);
    const std::size_t step = step_of(element);
    const ProductCase of = {.element = element,
                            .rows = between(seed, 0, 1, 150),
                            .n = between(seed, 1, 1, 150),
                            .k = step * between(seed, 2, 1, 1700 / step),
                            .accumulate = seed % 2 == 0,
                            .seed = seed};
    SCOPED_TRACE(::testing::Message()
                 << "seed " << seed << ": " << of.rows << " x " << of.n << " x " << of.k);
    for (const ProductForm form : {ProductForm::several, ProductForm::some})
      EXPECT_TRUE(
          same_bits(product_in_form(of, form, 0, of.rows), product_in_form(of, form, 0, of.rows, false)));
  }
}

constexpr ProductForm kBulkForms[] = {ProductForm::bulk_64, ProductForm::bulk_128, ProductForm::bulk_256},
                      kNarrowForms[] = {ProductForm::narrow_32, ProductForm::narrow_48,
                                        ProductForm::narrow_64, ProductForm::narrow_112,
                                        ProductForm::tall_64,   ProductForm::tall_112};

// A form by warpgroups is right, has the bits of tiles, and a row alone has those that it has among others.
void expect_bits_of_tiles(const ProductCase& of, ProductForm form) {
  SCOPED_TRACE(::testing::Message() << "seed " << of.seed << ": " << of.rows << " x " << of.n << " x "
                                    << of.k);
  const std::vector<float> all = product_in_form(of, form, 0, of.rows);
  expect_right(of, all);
  EXPECT_TRUE(same_bits(all, product_in_form(of, ProductForm::several, 0, of.rows)));
  const std::size_t first = of.rows / 2;
  EXPECT_TRUE(same_bits(product_in_form(of, form, first, 1), part(all, first * of.n, of.n)));
}

// A product of k up to `most`, a multiple of `step`, in a form of kBulkForms.
ProductCase of_many_rows(Element element, std::size_t step, std::size_t most, std::uint64_t seed) {
  const std::size_t tile = std::size_t{64} << seed % 3;
  return {.element = element,
          .rows = between(seed, 0, 1, tile + tile / 2),
          .n = between(seed, 1, 1, 300),
          .k = step * between(seed, 2, 1, most / step),
          .with_bias = seed % 4 < 2,
          .accumulate = seed / 4 % 2 == 0,
          .seed = seed};
}

// By warpgroups: tiles of rows and of columns that are there in part, rings that are filled again, or have
// more places than there are stages.
TEST(ProductKernels, WarpgroupsHaveTheBitsOfTiles) {
  if (!has_warpgroups()) GTEST_SKIP() << "the device has no products of warpgroups";
  for (std::uint64_t seed = 0; seed < 9; ++seed)
    expect_bits_of_tiles(of_many_rows(Element::bf16, 8, seed < 3 ? 1280 : 480, seed), kBulkForms[seed % 3]);
}

// The same of quantised weights, which are widened on their way (widened_rows, off).
TEST(ProductKernels, WidenedOnesHaveTheBitsOfTiles) {
  if (!has_warpgroups()) GTEST_SKIP() << "the device has no products of warpgroups";
  for (std::uint64_t seed = 9; seed < 24; ++seed) {
    const Element element = kTileElements[1 + seed % 5];
    expect_bits_of_tiles(of_many_rows(element, element == Element::q4 ? 64 : 128, 480, seed),
                         kBulkForms[seed % 3]);
  }
}

// A gate, what it opens and their function: the bits of products one by one and a launch that rounds.
TEST(ProductKernels, GatedOnesOfWarpgroupsHaveTheBitsOfLaunchesOneByOne) {
  if (!has_warpgroups()) GTEST_SKIP() << "the device has no products of warpgroups";
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    const ProductForm form = kBulkForms[seed % 3];
    const std::size_t tile = std::size_t{64} << seed % 3, width = 128 * between(seed, 1, 1, 3);
    const ProductCase of = {.rows = between(seed, 0, 1, 2 * tile + tile / 2),
                            .n = 2 * width,
                            .k = 8 * between(seed, 2, 1, 40),
                            .with_bias = seed % 2 == 0,
                            .seed = seed};
    SCOPED_TRACE(::testing::Message()
                 << "seed " << seed << ": " << of.rows << " x " << of.n << " x " << of.k);
    KernelBench bench(seed);
    const auto rows = static_cast<std::int32_t>(of.rows), n = static_cast<std::int32_t>(width);
    const auto elements = static_cast<std::size_t>(slab_elements(rows, n));
    GatedLinearArgs args = {.product = {.weight = bench.put(of.weights().stored)}};
    if (of.with_bias) args.product.bias = bench.put(of.bias());
    args.product.rows = rows, args.product.n = n, args.product.k = static_cast<std::int32_t>(of.k);
    args.product.rounded = room_for_rounded(bench, of.rows, of.k);
    ASSERT_TRUE(bench.run()
                    .round_rows({.x = bench.put(of.x()),
                                 .out = args.product.rounded,
                                 .width = args.product.k,
                                 .slab_rows = rows},
                                rows)
                    .ok());
    args.out = bench.make<std::uint16_t>(elements);
    ASSERT_TRUE(bench.run().linear_gated(args, form).ok());
    auto* const wanted = bench.make<std::uint16_t>(elements);
    ASSERT_TRUE(bench.run()
                    .activate({.in = bench.put(product_in_form(of, ProductForm::several, 0, of.rows)),
                               .width = n,
                               .slab_rows = rows,
                               .rounded = wanted},
                              rows)
                    .ok());
    EXPECT_EQ(bench.get(args.out, elements), bench.get(wanted, elements));
  }
}

// The same with few columns: blocks of 32 rows, of 64, and of 128.
TEST(ProductKernels, NarrowOnesHaveTheBitsOfTiles) {
  if (!has_warpgroups()) GTEST_SKIP() << "the device has no products of warpgroups";
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    const ProductForm form = kNarrowForms[seed % 6];
    const bool of_32 = seed / 6 % 2 == 0;
    const ProductCase of = {.rows = of_32 ? between(seed, 0, 1, 32) : between(seed, 0, 33, 140),
                            .n = between(seed, 1, 1, 300),
                            .k = 8 * between(seed, 2, 1, seed < (tries_all() ? 12 : 6) ? 250 : 60),
                            .with_bias = seed % 4 < 2,
                            .accumulate = seed / 12 == 0,
                            .seed = seed};
    expect_bits_of_tiles(of, form);
  }
}

// A cluster goes through all of its tiles, in two groups of rows, or through every other one.
TEST(ProductKernels, ClustersOfWarpgroupsGoFromTileToTile) {
  if (!has_warpgroups()) GTEST_SKIP() << "the device has no products of warpgroups";
  struct Launch {
    KernelId id;
    ProductTile tile;
    std::int32_t threads;
    std::size_t rows;
    std::uint32_t clusters;
  };
  const Launch all_launches[] = {
      {KernelId::linear_bulk_64_bf16, bulk_rows(64), kBulkThreads, 600, 1},
      {KernelId::linear_bulk_64_bf16, bulk_rows(64), kBulkThreads, 600, 2},
      {KernelId::linear_narrow_48_64_bf16, narrow_tile(48, 64), narrow_threads(64), 140, 1},
      {KernelId::linear_narrow_32_32_bf16, narrow_tile(32, 32), narrow_threads(32), 29, 2},
      {KernelId::linear_narrow_64_128_bf16, narrow_tile(64, 128), narrow_threads(128), 300, 2}};
  for (const auto& [id, tile, threads, rows, clusters] : all_launches) {
    const ProductCase of = {.rows = rows, .n = 300, .k = 72, .seed = 9};
    KernelBench bench(of.seed + clusters);
    LinearArgs args = {.x = bench.put(of.x()), .weight = bench.put(of.weights().stored)};
    args.y = bench.make<float>(of.rows * of.n, "y");
    args.rows = static_cast<std::int32_t>(of.rows);
    args.n = args.stride = static_cast<std::int32_t>(of.n);
    args.k = static_cast<std::int32_t>(of.k);
    args.rounded = room_for_rounded(bench, of.rows, of.k);
    ASSERT_TRUE(bench.run()
                    .round_rows({.x = args.x, .out = args.rounded, .width = args.k, .slab_rows = args.rows},
                                args.rows)
                    .ok());
    const LaunchShape shape = {.grid = {1, 2 * clusters},
                               .block = {static_cast<std::uint32_t>(threads)},
                               .shared_bytes = product_shared_bytes(tile, 64),
                               .cluster = 2};
    ASSERT_TRUE(launch(bench.device(), bench.stream(), kernel(bench.device(), id), shape, args).ok());
    const std::vector<float> all = bench.get(args.y, of.rows * of.n);
    expect_right(of, all);
    EXPECT_TRUE(same_bits(all, product_in_form(of, ProductForm::wide, 0, of.rows)));
  }
}

TEST(ProductKernels, BitsDependOnTheRowAlone) {
  for (const Element element : kTileElements) {
    const ProductCase of = {.element = element,
                            .rows = 130,
                            .n = 10,
                            .k = element == Element::bf16  ? 424u
                                 : element >= Element::fp8 ? 416u
                                 : element == Element::q4  ? 448u
                                                           : 384u,  // ends in a stage
                            .with_bias = element != Element::q4,
                            .accumulate = true,
                            .seed = 11};
    SCOPED_TRACE(static_cast<int>(element));
    const std::vector<float> all = product_in_form(of, ProductForm::many, 0, of.rows);
    expect_right(of, all);
    for (const ProductForm form : kForms)
      for (const auto& [first, count] :
           {std::pair{0, 1}, {129, 1}, {64, 1}, {5, 3}, {127, 3}, {40, 16}, {113, 17}, {33, 64}, {0, 130}}) {
        const auto from = static_cast<std::size_t>(first), rows = static_cast<std::size_t>(count);
        EXPECT_TRUE(same_bits(product_in_form(of, form, from, rows), part(all, from * of.n, rows * of.n)))
            << "form " << static_cast<int>(form) << ", rows from " << first << ", " << count;
      }
  }
}

// Two matrices of different types side by side: LinearArgs::stride.
TEST(ProductKernels, PartsOfARowLieBesideEachOther) {
  const ProductCase first = {.element = Element::q4_k, .rows = 20, .n = 18, .k = 256, .seed = 1};
  const ProductCase second = {.element = Element::q6_k, .rows = 20, .n = 10, .k = 256, .seed = 1};
  const std::size_t width = first.n + second.n;
  for (const bool tiles : {true, false})
    for (const std::size_t rows : {std::size_t{3}, first.rows}) {
      KernelBench bench(1);
      const auto x = bench.put(part(first.x(), 0, rows * first.k));
      auto* const rounded = room_for_rounded(bench, rows, first.k);
      const auto multiply = [&](const ProductCase& of, float* y, std::size_t stride) {
        LinearArgs args = {.x = x, .weight = bench.put(of.weights().stored), .y = y};
        args.rows = static_cast<std::int32_t>(rows);
        args.n = static_cast<std::int32_t>(of.n);
        args.k = static_cast<std::int32_t>(of.k);
        args.rounded = rounded;
        args.stride = static_cast<std::int32_t>(stride);
        EXPECT_TRUE(
            (tiles ? bench.run().linear_tiles(of.element, args) : bench.run().linear(of.element, args)).ok());
      };
      float* const both = bench.make<float>(rows * width);
      multiply(first, both, width);
      multiply(second, both + first.n, width);
      float* const alone[] = {bench.make<float>(rows * first.n), bench.make<float>(rows * second.n)};
      multiply(first, alone[0], 0);
      multiply(second, alone[1], 0);
      const auto got = bench.get(both, rows * width), left = bench.get(alone[0], rows * first.n),
                 right = bench.get(alone[1], rows * second.n);
      for (std::size_t row = 0; row < rows; ++row) {
        EXPECT_TRUE(same_bits(part(got, row * width, first.n), part(left, row * first.n, first.n)));
        EXPECT_TRUE(
            same_bits(part(got, row * width + first.n, second.n), part(right, row * second.n, second.n)));
      }
    }
}

// Codes of 4 bits times scales of 8 are exact in bfloat16, and a row's number multiplies what is finished:
// the bits are those of products of bfloat16, times that.
TEST(ProductKernels, ScaledFloatsOf4BitsHaveTheBitsOfBfloat16TimesTheRowsNumber) {
  for (const ProductForm form : kForms) {
    const std::size_t rows = 5, n = 11, k = 672;
    Weights ones = {.element = Element::nvfp4, .stored = {}, .values = std::vector<float>(n * k)};
    append_floats4_scaled(ones, 4, n, k, true);
    const Weights scaled = random_weights(Element::nvfp4, 4, n, k);
    Weights wide = {.element = Element::bf16, .stored = {}, .values = ones.values};
    for (const float value : ones.values) {
      ASSERT_EQ(rounded(value), value);
      append(wide.stored, float_to_bfloat16(value));
    }
    const auto made = [&](const Weights& weights) {
      KernelBench bench(1);
      LinearArgs args = {.x = bench.put(random_floats(3, rows * k)), .weight = bench.put(weights.stored)};
      args.y = bench.make<float>(rows * n);
      args.rows = static_cast<std::int32_t>(rows), args.n = static_cast<std::int32_t>(n);
      args.k = static_cast<std::int32_t>(k);
      args.rounded = room_for_rounded(bench, rows, k);
      EXPECT_TRUE(bench.run().linear_tiles(weights.element, args, form).ok());
      return bench.get(args.y, rows * n);
    };
    std::vector<float> wanted = made(wide);
    EXPECT_TRUE(same_bits(made(ones), wanted)) << static_cast<int>(form);
    const std::size_t row_bytes = scaled.stored.size() / n;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      float all;
      std::memcpy(&all, &scaled.stored[i % n * row_bytes + row_bytes - sizeof(Float4Factors)], sizeof all);
      wanted[i] *= all;
    }
    EXPECT_TRUE(same_bits(made(scaled), wanted)) << static_cast<int>(form);
  }
}

// Rows that are infinite or not a number stay among themselves.
TEST(ProductKernels, RowsDoNotSeeEachOther) {
  const ProductCase of = {.rows = 16, .n = 16, .k = 128, .seed = 3};
  std::vector<ProductForm> forms(std::begin(kForms), std::end(kForms));
  if (has_warpgroups()) {
    forms.insert(forms.end(), std::begin(kBulkForms), std::end(kBulkForms));
    forms.insert(forms.end(), std::begin(kNarrowForms), std::end(kNarrowForms));
  }
  for (const ProductForm form : forms) {
    KernelBench bench(1);
    std::vector<float> x = of.x();
    const std::vector<float> wanted = product_in_form(of, form, 0, 1);
    for (std::size_t i = of.k; i < x.size(); ++i) x[i] = i % 2 == 0 ? INFINITY : NAN;
    LinearArgs args = {.x = bench.put(x), .weight = bench.put(of.weights().stored)};
    args.y = bench.make<float>(of.rows * of.n);
    args.rows = 16, args.n = 16, args.k = 128;
    args.rounded = room_for_rounded(bench, of.rows, of.k);
    ASSERT_TRUE(bench.run().linear_tiles(Element::bf16, args, form).ok());
    const std::vector<float> got = bench.get(args.y, of.rows * of.n);
    EXPECT_TRUE(same_bits(part(got, 0, of.n), wanted));
    EXPECT_TRUE(std::isnan(got[of.n]));
  }
}

// Pairs of rows and experts: each as its row by its expert's matrix alone.
TEST(ProductKernels, PairsOfExpertsHaveTheBitsOfTheirRowAlone) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE(seed);
    const Element element = tile_element(seed);
    const std::size_t experts = between(seed, 0, 2, 6), n = between(seed, 1, 5, 40),
                      k = element >= Element::fp8 ? 288 : 256, per_token = 2, rows = between(seed, 2, 1, 30),
                      pairs = rows * per_token;
    const bool weighed = seed % 2 == 0, with_bias = seed < 5;
    const Weights weights = random_weights(element, seed, experts * n, k);
    const auto x = random_floats(seed + 1, rows * k), factors = random_floats(seed + 2, pairs),
               bias = random_floats(seed + 3, experts * n);
    std::vector<std::int32_t> chosen;
    std::vector<float> weighed_x;
    for (std::size_t pair = 0; pair < pairs; ++pair) {
      chosen.push_back(
          static_cast<std::int32_t>(between(seed, 50 + pair, 0, pair % 3 == 0 ? experts - 1 : 1)));
      for (std::size_t i = 0; i < k; ++i)
        weighed_x.push_back(x[pair / per_token * k + i] * (weighed ? factors[pair] : 1));
    }
    KernelBench bench(seed);
    GroupedLinearArgs args = {.x = bench.put(x), .weight = bench.put(weights.stored, "weights")};
    args.bias = with_bias ? bench.put(bias) : nullptr;
    args.factors = weighed ? bench.put(factors) : nullptr;
    args.y = bench.make<float>(pairs * n);
    auto* const slots = bench.make<std::int32_t>(pairs);
    args.pairs = static_cast<std::int32_t>(pairs);
    args.experts = static_cast<std::int32_t>(experts);
    auto* const tiles =
        bench.make<TileOfPairs>(static_cast<std::size_t>(most_tiles(args.pairs, args.experts)));
    args.slots = slots;
    args.tiles = tiles;
    args.n = static_cast<std::int32_t>(n);
    args.k = static_cast<std::int32_t>(k);
    args.pairs_of_row = static_cast<std::int32_t>(per_token);
    ASSERT_TRUE(bench.run().group_pairs({bench.put(chosen), slots, tiles, args.pairs, args.experts}).ok());
    ASSERT_TRUE(bench.run().grouped_tiles(element, args).ok());
    const float* const alone = bench.put(weighed_x);
    float* const wanted = bench.make<float>(pairs * n);
    for (std::size_t pair = 0; pair < pairs; ++pair) {
      const auto expert = static_cast<std::size_t>(chosen[pair]);
      LinearArgs one = {.x = alone + pair * k, .bias = with_bias ? args.bias + expert * n : nullptr};
      one.weight = static_cast<const std::byte*>(args.weight) + expert * (weights.stored.size() / experts);
      one.y = wanted + pair * n;
      one.rows = 1;
      one.n = args.n;
      one.k = args.k;
      ASSERT_TRUE(bench.run().linear_tiles(element, one).ok());
    }
    EXPECT_TRUE(same_bits(bench.get(args.y, pairs * n), bench.get(wanted, pairs * n)));
  }
}

TEST(ProductKernels, FormsAreChosenBySize) {
  EXPECT_EQ(KernelLaunches::product_form(1, 4096), ProductForm::few);
  EXPECT_EQ(KernelLaunches::product_form(KernelLaunches::few_rows(), 128256), ProductForm::few);
  EXPECT_EQ(KernelLaunches::product_form(KernelLaunches::few_rows() + 1, 4096), ProductForm::several);
  EXPECT_EQ(KernelLaunches::product_form(32, 128256), ProductForm::several);
  EXPECT_EQ(KernelLaunches::product_form(33, 4096), ProductForm::some);
  EXPECT_EQ(KernelLaunches::product_form(64, 128256), ProductForm::wide);
  EXPECT_EQ(KernelLaunches::product_form(256, 4096), ProductForm::wide);
  EXPECT_EQ(KernelLaunches::product_form(65, 4096), ProductForm::some);
  EXPECT_EQ(KernelLaunches::product_form(256, 28672), ProductForm::many);
  EXPECT_EQ(KernelLaunches::product_form(2048, 4096), ProductForm::many);
  EXPECT_EQ(KernelLaunches::bulk_form(256, 4096), ProductForm::bulk_64);
  EXPECT_EQ(KernelLaunches::bulk_form(256, 6144), ProductForm::bulk_128);
  EXPECT_EQ(KernelLaunches::bulk_form(256, 28672), ProductForm::bulk_256);
  EXPECT_EQ(KernelLaunches::bulk_form(512, 28672), ProductForm::bulk_256);
  EXPECT_EQ(KernelLaunches::bulk_form(4096, 128256), ProductForm::bulk_256);
  EXPECT_EQ(KernelLaunches::bulk_form(2048, 4096), ProductForm::bulk_256);
  EXPECT_EQ(KernelLaunches::narrow_form(32, 4096), ProductForm::narrow_32);
  EXPECT_EQ(KernelLaunches::narrow_form(32, 6144), ProductForm::narrow_48);
  EXPECT_EQ(KernelLaunches::narrow_form(32, 28672), ProductForm::narrow_112);
  EXPECT_EQ(KernelLaunches::narrow_form(64, 128256), ProductForm::narrow_112);
  EXPECT_EQ(KernelLaunches::narrow_form(128, 4096), ProductForm::narrow_64);
  if (has_warpgroups()) {
    KernelBench bench;
    const auto form = [&](std::int32_t rows, std::int32_t n) {
      return bench.run().warpgroup_form(Element::bf16, rows, n);
    };
    EXPECT_EQ(form(256, 4096), ProductForm::tall_64);
    EXPECT_EQ(form(256, 6144), ProductForm::tall_112);
    EXPECT_EQ(form(256, 28672), ProductForm::bulk_256);
    EXPECT_EQ(form(128, 4096), ProductForm::narrow_64);
    EXPECT_EQ(form(512, 4096), ProductForm::bulk_128);
  }
  EXPECT_FALSE(KernelLaunches::supports_product_tiles(Element::f32, 128));
  EXPECT_TRUE(KernelLaunches::supports_product_tiles(Element::bf16, 40));
  EXPECT_FALSE(KernelLaunches::supports_product_tiles(Element::bf16, 36));
  EXPECT_FALSE(KernelLaunches::supports_product_tiles(Element::q4, 96));
  EXPECT_TRUE(KernelLaunches::supports_product_tiles(Element::q4, 192));
  EXPECT_FALSE(KernelLaunches::supports_product_tiles(Element::q8, 192));
  EXPECT_TRUE(KernelLaunches::supports_product_tiles(Element::q6_k, 256));
  EXPECT_TRUE(KernelLaunches::supports_product_tiles(Element::fp8, 160));
  EXPECT_FALSE(KernelLaunches::supports_product_tiles(Element::fp8_blocks, 144));
  EXPECT_TRUE(KernelLaunches::supports_product_tiles(Element::mxfp4, 2880));
  EXPECT_TRUE(KernelLaunches::supports_product_tiles(Element::nvfp4, 2880));
  EXPECT_TRUE(KernelLaunches::supports_product_tiles(Element::q5_k, 256));
}

}  // namespace
}  // namespace pagoda::device
