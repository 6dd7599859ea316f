// Goal: a product of few rows that works out the norm of its input, takes a function of its sums, or shares
// its launch with other matrices, gives the bits of the launches that it stands for, over random shapes.
#include <gtest/gtest.h>

#include <array>
#include <optional>

#include "device/product_test_support.h"

namespace pagoda::device {
namespace {

using NormKind = InputNorm::Kind;

std::int32_t i32(std::size_t value) { return static_cast<std::int32_t>(value); }

constexpr Function kFunctions[] = {Function::silu, Function::gelu_tanh, Function::gelu_erf,
                                   Function::relu, Function::relu2,     Function::clamped_silu};

struct Part {
  Element element = Element::bf16;
  std::size_t n = 8;  // columns of y
  bool with_bias = false;
};

struct FewCase {
  std::size_t rows = 1, k = 128;
  std::vector<Part> parts = {Part()};
  NormKind norm = NormKind::none;
  bool norm_weight = true, norm_bias = false, accumulate = false;
  std::optional<Function> function = {};
  bool gated = false, rounded = false;  // rounded: x is there in bfloat16 alone
  std::uint64_t seed = 0;

  std::size_t columns() const {
    std::size_t sum = 0;
    for (const Part& part : parts) sum += part.n;
    return sum;
  }
};

// One launch, and those that it stands for, over the same memory.
class Both {
 public:
  explicit Both(const FewCase& of) : of_(of), bench_(of.seed), columns_(of.columns()) {
    x_ = bench_.put(random_floats(of.seed + 50, of.rows * of.k), "x");
    if (of.norm_weight) norm_weight_ = bench_.put(random_floats(of.seed + 51, of.k), "norm");
    if (of.norm_bias) norm_bias_ = bench_.put(random_floats(of.seed + 52, of.k), "norm's bias");
    for (std::size_t i = 0; i < of.parts.size(); ++i) {
      const Part& part = of.parts[i];
      const std::size_t rows = part.n * (of.gated ? 2 : 1);
      matrices_.push_back(
          {.element = part.element,
           .weight = bench_.put(random_weights(part.element, of.seed + i, rows, of.k).stored, "weights"),
           .bias = part.with_bias ? bench_.put(random_floats(of.seed + 70 + i, rows), "bias") : nullptr,
           .n = i32(part.n)});
    }
  }

  std::vector<float> at_once() {
    FewLinearArgs args;
    args.product = {.x = x_, .y = y(), .rows = i32(of_.rows), .k = i32(of_.k)};
    args.product.accumulate = of_.accumulate ? 1 : 0;
    args.norm = {.kind = of_.norm, .weight = norm_weight_, .bias = norm_bias_, .eps = 1e-5f};
    if (of_.function) args.output = {.is_there = 1, .function = *of_.function, .gated = of_.gated ? 1 : 0};
    if (of_.rounded) {
      args.product.rounded = bench_.make<std::uint16_t>(of_.rows * of_.k);
      const RoundRowsArgs rounded = {.x = x_, .out = args.product.rounded, .width = i32(of_.k)};
      EXPECT_TRUE(bench_.run().round_rows(rounded, static_cast<std::int64_t>(of_.rows)).ok());
      args.product.x = nullptr;
    }
    const Status status = bench_.run().linear_few(matrices_, args);
    EXPECT_TRUE(status.ok()) << status.message();
    return bench_.get(args.product.y, of_.rows * columns_);
  }

  std::vector<float> one_by_one() {
    const float* const x = normed();
    const std::size_t stride = columns_ * (of_.gated ? 2 : 1);
    float* const sums = of_.function ? bench_.make<float>(of_.rows * stride) : y();
    float* to = sums;
    for (const KernelLaunches::Matrix& matrix : matrices_) {
      const std::int32_t n = matrix.n * (of_.gated ? 2 : 1);
      const LinearArgs args = {.x = x,
                               .weight = matrix.weight,
                               .bias = matrix.bias,
                               .y = to,
                               .rows = i32(of_.rows),
                               .n = n,
                               .k = i32(of_.k),
                               .accumulate = of_.accumulate ? 1 : 0,
                               .rounded = room_for_rounded(bench_, of_.rows, of_.k),
                               .stride = i32(stride)};
      // Another form, since few rows are what is tried.
      EXPECT_TRUE(bench_.run().linear_tiles(matrix.element, args, KernelLaunches::ProductForm::several).ok());
      to += n;
    }
    if (!of_.function) return bench_.get(sums, of_.rows * columns_);
    float* const out = bench_.make<float>(of_.rows * columns_);
    EXPECT_TRUE(bench_.run()
                    .activate({.in = sums,
                               .out = out,
                               .width = i32(columns_),
                               .function = *of_.function,
                               .gated = of_.gated ? 1 : 0},
                              static_cast<std::int64_t>(of_.rows))
                    .ok());
    return bench_.get(out, of_.rows * columns_);
  }

 private:
  float* y() { return bench_.put(random_floats(of_.seed + 80, of_.rows * columns_), "y"); }

  const float* normed() {
    if (of_.norm == NormKind::none) return x_;
    const NormArgs args = {.x = x_,
                           .weight = norm_weight_,
                           .out = bench_.make<float>(of_.rows * of_.k),
                           .width = i32(of_.k),
                           .eps = 1e-5f,
                           .bias = norm_bias_};
    const auto rows = static_cast<std::int64_t>(of_.rows);
    const bool rms = of_.norm == NormKind::rms;
    EXPECT_TRUE((rms ? bench_.run().rms_norm(args, rows) : bench_.run().layer_norm(args, rows)).ok());
    return args.out;
  }

  const FewCase& of_;
  KernelBench bench_;
  std::size_t columns_;
  const float *x_ = nullptr, *norm_weight_ = nullptr, *norm_bias_ = nullptr;
  std::vector<KernelLaunches::Matrix> matrices_;
};

void expect_same(const FewCase& of) {
  SCOPED_TRACE(::testing::Message() << "seed " << of.seed << ": " << of.rows << " x " << of.columns() << " x "
                                    << of.k << " of " << of.parts.size());
  Both both(of);
  const std::vector<float> got = both.at_once();
  EXPECT_TRUE(same_bits(got, both.one_by_one()));
  float largest = 0;
  for (const float value : got) largest = std::max(largest, std::abs(value));
  EXPECT_GT(largest, 0.01f);
}

std::size_t most_norms() { return static_cast<std::size_t>(KernelLaunches::few_norms()); }

TEST(FewKernels, NormsAndFunctionsHaveTheBitsOfLaunchesOneByOne) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const NormKind norm = std::array{NormKind::rms, NormKind::layer, NormKind::none}[seed % 3];
    const Element element = tile_element(seed / 3);
    const std::size_t step = step_of(element);
    FewCase of = {.rows = between(seed, 0, 1, norm == NormKind::none ? 16 : most_norms()),
                  // A norm's threads are 128 or, from 1,024 elements on, 512.
                  .k = step * between(seed, 1, 1, (seed % 4 == 3 ? 1700 : 400) / step),
                  .norm = norm,
                  .norm_weight = seed % 7 != 0,
                  .norm_bias = norm == NormKind::layer && seed % 2 == 0,
                  .seed = seed};
    if (seed % 4 != 0) of.function = kFunctions[seed % std::size(kFunctions)];
    of.gated = seed % 4 == 1 || seed % 4 == 3;
    of.accumulate = !of.function && seed % 8 == 0;
    of.rounded = norm == NormKind::none && seed % 2 == 0;
    of.parts = {{.element = element, .n = between(seed, 2, 1, 70), .with_bias = seed % 5 == 0}};
    expect_same(of);
  }
}

// The inputs do not fit into shared memory at once: a mean and a scale hold for all parts of k.
TEST(FewKernels, NormsOfLongRows) {
  for (const NormKind norm : {NormKind::rms, NormKind::layer})
    expect_same({.rows = most_norms(),
                 .k = 32u * 1024 / 2 / most_norms() + 256,
                 .parts = {{.element = Element::q4_k, .n = 6}},
                 .norm = norm,
                 .function = Function::silu,
                 .gated = true,
                 .seed = 7});
}

// Rows begin at places of any kind: even and odd numbers of columns before them.
TEST(FewKernels, MatricesOfSeveralTypesShareALaunch) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const std::size_t count = between(seed, 0, 2, kMostParts);
    FewCase of = {.rows = between(seed, 1, 1, seed % 2 == 0 ? most_norms() : 16),
                  .k = 128 * between(seed, 2, 1, 9),
                  .parts = {},
                  .norm = seed % 2 == 0 ? NormKind::rms : NormKind::none,
                  .accumulate = seed % 3 == 0,
                  .seed = seed};
    for (std::size_t i = 0; i < count; ++i)
      of.parts.push_back({.element = tile_element(between(seed, 10 + i, 0, 5)),
                          .n = between(seed, 20 + i, 1, 40) * (seed % 5 == 0 ? 1 : 2),
                          .with_bias = (seed + i) % 2 == 0});
    if (seed % 3 == 1) of.function = Function::gelu_tanh;
    expect_same(of);
  }
}

}  // namespace
}  // namespace pagoda::device
