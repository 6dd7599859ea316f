// Goal: experts keep the numbers of their file on a device, and a mixture of them is that of the same weights
// widened: to the bit where their products are those of bfloat16, by the reference within its rounding; and a
// row has the same bits alone and among others, over experts whose rows end within a stage.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "device/test_support.h"
#include "kernels/dequantize.h"
#include "kernels/device/device_ops.h"
#include "kernels/linear_storage.h"
#include "kernels/mixture.h"
#include "kernels/testing.h"

namespace pagoda {
namespace {

using device::Element;

constexpr std::int64_t kExperts = 5, kExpertWidth = 192, kInner = 320, kChosen = 2, kExpertRows = 23;

struct Case {
  DType dtype = DType::mxfp4;
  std::int64_t shared = 32;  // weights of a row that have one scale, where they are 8-bit floats
  Element kept = Element::mxfp4;
};

// [rows, columns], and the same widened.
struct ExpertsInMemory {
  std::vector<std::byte> file;
  std::vector<float> widened;
  TensorView view, wide;
  ExpertsInMemory(const Case& of, std::uint64_t seed, std::int64_t rows, std::int64_t columns)
      : file(random_weights(seed, of.dtype, rows * columns)),
        widened(static_cast<std::size_t>(rows * columns)) {
    for (std::int64_t group = 0; of.dtype == DType::fp8 && group < rows * columns / 32; ++group) {
      const std::int64_t row = group / (columns / 32), first = group % (columns / 32) * 32 / of.shared;
      const float scale = 0.001f * static_cast<float>(1 + (row + 3 * first) % 7);
      std::memcpy(file.data() + 36 * group, &scale, sizeof scale);
    }
    view = {.dtype = of.dtype, .shape = {rows, columns}, .data = file.data()};
    for (std::int64_t row = 0; row < rows; ++row) dequantize_row(view, row, widened.data() + row * columns);
    wide = {DType::f32, {rows, columns}, reinterpret_cast<const std::byte*>(widened.data())};
  }
};

struct Experts {
  std::vector<ExpertsInMemory> gate, up, down;
  explicit Experts(const Case& of) {
    for (std::uint64_t i = 0; i < kExperts; ++i) {
      gate.emplace_back(of, 10 + i, kInner, kExpertWidth);
      up.emplace_back(of, 20 + i, kInner, kExpertWidth);
      down.emplace_back(of, 30 + i, kExpertWidth, kInner);
    }
  }
};

// The mixture of rows [first, first + count), by experts as they are stored or widened. `kept`: what has
// become of them.
struct How {
  bool widened = false, weigh_input = false;
  LinearArithmetic inputs = {};  // not own: by products that do what it says
};
std::vector<float> mix_on_device(const Experts& experts, const How& how, std::int64_t first,
                                 std::int64_t count, Element* kept = nullptr) {
  device::KernelBench bench(static_cast<std::uint64_t>(first + count));
  device::StepArena arena(bench.device(), bench.stream());
  const auto products = how.inputs.is_own() ? MatrixProducts::automatic : MatrixProducts::w8a8;
  DeviceOps ops(bench.device(), bench.stream(), arena, {.weights = Element::bf16, .products = products});
  const KernelContext context = {.backend = Backend::device, .device = &ops};
  const auto of = [&](const ExpertsInMemory& one) { return how.widened ? one.wide : one.view; };
  std::vector<PackedLinear> in, out;
  for (std::size_t i = 0; i < kExperts; ++i) {
    ops.continue_series(0, kExperts);
    in.push_back(*PackedLinear::pack(context, LinearType::bfloat16,
                                     std::vector{of(experts.gate[i]), of(experts.up[i])}, {},
                                     LinearForm::gated, how.inputs));
    ops.continue_series(1, kExperts);
    out.push_back(*PackedLinear::pack(context, LinearType::bfloat16, std::vector{of(experts.down[i])}, {},
                                      LinearForm::stacked, how.inputs));
  }
  if (kept != nullptr) *kept = in.back().storage().device.front().element;
  const MixtureArgs args = {.routing = {.num_experts = kExperts, .per_token = kChosen},
                            .weigh_input = how.weigh_input,
                            .first = in,
                            .second = out};
  const auto rows = [&](std::uint64_t seed, std::int64_t width) {
    const std::vector<float> all = random_floats(seed, static_cast<std::size_t>(kExpertRows * width));
    const auto begin = all.begin() + first * width;
    return Buffer::of(bench.put(std::vector<float>(begin, begin + count * width)), width);
  };
  const Buffer x = rows(1, kExpertWidth);
  const Buffer y =
      Buffer::of(bench.make<float>(static_cast<std::size_t>(count * kExpertWidth)), kExpertWidth);
  const Buffer scratch =
      Buffer::of(bench.make<float>(static_cast<std::size_t>(count * mixture_scratch(args))), 0);
  EXPECT_TRUE(mixture(context, args, rows(2, kExperts), LinearInput::rows(x), count, scratch, false, y).ok());
  const Status status = ops.take_status();
  EXPECT_TRUE(status.ok()) << status.message();
  return bench.get(reinterpret_cast<const float*>(y.data), static_cast<std::size_t>(count * kExpertWidth));
}

std::vector<float> mix_by_reference(const Experts& experts, const How& how = {}) {
  const KernelContext context = {.backend = Backend::reference};
  std::vector<PackedLinear> in, out;
  for (std::size_t i = 0; i < kExperts; ++i) {
    in.push_back(*PackedLinear::pack(context, LinearType::float32,
                                     std::vector{experts.gate[i].wide, experts.up[i].wide}, {},
                                     LinearForm::gated, how.inputs));
    out.push_back(*PackedLinear::pack(context, LinearType::float32, std::vector{experts.down[i].wide}, {},
                                      LinearForm::stacked, how.inputs));
  }
  const MixtureArgs args = {.routing = {.num_experts = kExperts, .per_token = kChosen},
                            .weigh_input = how.weigh_input,
                            .first = in,
                            .second = out};
  const std::vector<float> logits = random_floats(2, kExpertRows * kExperts),
                           x = random_floats(1, kExpertRows * kExpertWidth);
  std::vector<float> scratch(static_cast<std::size_t>(kExpertRows * mixture_scratch(args))),
      y(kExpertRows * kExpertWidth);
  EXPECT_TRUE(mixture(context, args, Buffer::of(logits.data(), kExperts),
                      LinearInput::rows(Buffer::of(x.data(), kExpertWidth)), kExpertRows,
                      Buffer::of(scratch.data(), 0), false, Buffer::of(y.data(), kExpertWidth))
                  .ok());
  return y;
}

// How far these are from what they should be, by its size.
double distance(const std::vector<float>& made, const std::vector<float>& wanted) {
  double size = 0, off = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    size += wanted[i] * wanted[i];
    off += (made[i] - wanted[i]) * (made[i] - wanted[i]);
  }
  return std::sqrt(off / size);
}

class StoredExperts : public ::testing::TestWithParam<Case> {};

TEST_P(StoredExperts, AreThoseOfWidenedWeights) {
  const Experts experts(GetParam());
  Element kept = Element::f32;
  const std::vector<float> made = mix_on_device(experts, {}, 0, kExpertRows, &kept);
  EXPECT_EQ(kept, GetParam().kept);
  if (kept == Element::mxfp4 || GetParam().dtype == DType::nvfp4)
    EXPECT_TRUE(same_bits(made, mix_on_device(experts, {.widened = true}, 0, kExpertRows)));
  EXPECT_LT(distance(made, mix_by_reference(experts)), 0.01);  // inputs have 8 bits of fraction
}

TEST_P(StoredExperts, BitsDependOnTheRowAlone) {
  const Experts experts(GetParam());
  const std::vector<float> all = mix_on_device(experts, {}, 0, kExpertRows);
  for (const std::int64_t row : {std::int64_t{0}, std::int64_t{7}, kExpertRows - 1}) {
    const auto begin = all.begin() + row * kExpertWidth;
    EXPECT_TRUE(same_bits(mix_on_device(experts, {}, row, 1), {begin, begin + kExpertWidth})) << row;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, StoredExperts,
                         ::testing::Values(Case{}, Case{DType::nvfp4, 16, Element::nvfp4},
                                           Case{DType::nvfp4_scaled, 16, Element::nvfp4},
                                           Case{DType::fp8, 1 << 20, Element::fp8_blocks},
                                           Case{DType::fp8, 128, Element::fp8_blocks}),
                         [](const auto& info) {
                           const std::string name(dtype_info(info.param.dtype).name);
                           return name + (info.param.shared == 128 ? "_BLOCKS" : "");
                         });

// Inputs in 8-bit floats, with scales of rows, of rows with a bound, and of each 128: what the scheme says,
// and nearer to it than with inputs of 16 bits. A row has the same bits alone.
TEST(ExpertsInputs, AreOf8BitsAsTheSchemeSays) {
  const LinearArithmetic of_rows = {.number = InputNumber::e4m3},
                         bounded = {.number = InputNumber::e4m3, .largest = 0.5f},
                         of_groups = {.number = InputNumber::e4m3, .scales = InputScale::group, .group = 128};
  for (const LinearArithmetic& inputs : {of_rows, bounded, of_groups})
    for (const bool weigh_input : {false, true}) {
      if (weigh_input && inputs.largest > 0) continue;
      SCOPED_TRACE(linear_arithmetic_text(inputs));
      const Experts experts(Case{DType::fp8, inputs.group == 128 ? 128 : 1 << 20, Element::fp8_blocks});
      const How how = {.weigh_input = weigh_input, .inputs = inputs};
      const std::vector<float> made = mix_on_device(experts, how, 0, kExpertRows),
                               kept = mix_on_device(experts, {.weigh_input = weigh_input}, 0, kExpertRows),
                               wanted = mix_by_reference(experts, how);
      EXPECT_LT(distance(made, wanted), 0.01);
      EXPECT_LT(2 * distance(made, wanted), distance(kept, wanted));
      for (const std::int64_t row : {std::int64_t{0}, kExpertRows - 1}) {
        const auto begin = made.begin() + row * kExpertWidth;
        EXPECT_TRUE(same_bits(mix_on_device(experts, how, row, 1), {begin, begin + kExpertWidth})) << row;
      }
    }
}

// Fixed scales, and groups of other sizes, are no inputs of these products.
TEST(ExpertsInputs, OfOtherSchemesKeep16Bits) {
  const Experts experts(Case{DType::fp8, 128, Element::fp8_blocks});
  const LinearArithmetic fixed = {.number = InputNumber::e4m3, .scales = InputScale::fixed, .scale = 0.01f},
                         small = {.number = InputNumber::e4m3, .scales = InputScale::group, .group = 64};
  const std::vector<float> kept = mix_on_device(experts, {}, 0, kExpertRows);
  for (const LinearArithmetic& inputs : {fixed, small})
    EXPECT_TRUE(same_bits(mix_on_device(experts, {.inputs = inputs}, 0, kExpertRows), kept));
}

}  // namespace
}  // namespace pagoda
