// Goal: the one pass behind the product of queries, keys and values agrees with the plain form, for every
// kind of norm, on either side of the rotation, and a row's bits depend on neither the batch nor the threads.
#include "kernels/attention_input.h"

#include <gtest/gtest.h>

#include "kernels/testing.h"

namespace pagoda {
namespace {

constexpr std::int32_t kHeads = 4, kKvHeads = 2, kSize = 12, kHidden = 40, kRows = 70;
constexpr std::int64_t kWidth = (kHeads + 2 * kKvHeads) * kSize + kHeads;  // with a gate of each head

struct Case {
  HeadNorms::Kind kind = HeadNorms::Kind::none;
  bool behind = false, values = false, weights = true, own_kv = true;
  float clip = 0, beta = 0;
  std::int32_t rotary = 8;
};

class AttentionInput {
 public:
  std::vector<float> run(const KernelContext& context, const Case& of, std::int32_t first,
                         std::int32_t rows) const {
    const std::int64_t width = of.own_kv ? kWidth : kHeads * kSize;
    const std::vector<std::byte> bytes = random_weights(3, DType::f32, width * kHidden);
    const TensorView view = {DType::f32, {width, kHidden}, bytes.data()};
    auto packed = PackedLinear::pack(context, LinearType::float32, std::span(&view, 1));
    CHECK(packed);
    std::vector<float> out(static_cast<std::size_t>(rows * width), 5.0f);
    const auto own =
        std::span(positions_).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(rows));
    attention_input(context, {.weight = &*packed,
                              .input = LinearInput::rows(x_.data() + first * kHidden, kHidden),
                              .num_rows = rows,
                              .num_query_heads = kHeads,
                              .num_kv_heads = of.own_kv ? kKvHeads : 0,
                              .head_size = kSize,
                              .norms = {.kind = of.kind,
                                        .query = of.weights ? query_.data() : nullptr,
                                        .key = of.weights ? key_.data() : nullptr,
                                        .values = of.values,
                                        .behind_rotation = of.behind,
                                        .eps = 1e-3f},
                              .clip = of.clip,
                              .rotary_size = of.rotary,
                              .turns = own,
                              .cos_sin = Buffer::of(table_.data(), of.rotary),
                              .query_scale = {.beta = of.beta, .offset = 1, .positions = 4},
                              .positions = own,
                              .output = Buffer::of(out.data(), width)});
    return out;
  }

 private:
  std::vector<float> x_ = random_floats(1, std::size_t{kRows} * kHidden, 4),
                     table_ = random_floats(2, 9 * kSize), query_ = random_floats(4, kHeads* kSize),
                     key_ = random_floats(5, kHeads* kSize);
  std::vector<std::int32_t> positions_ = [] {
    std::vector<std::int32_t> positions;
    for (std::int32_t i = 0; i < kRows; ++i) positions.push_back(i * 5 % 9);
    return positions;
  }();
};

std::vector<Case> cases() {
  using Kind = HeadNorms::Kind;
  std::vector<Case> all = {{},
                           {.clip = 0.3f},
                           {.beta = 0.4f},
                           {.beta = 0.4f, .rotary = 0},
                           {.own_kv = false},
                           {.kind = Kind::rms, .own_kv = false},
                           {.kind = Kind::rms, .values = true},
                           {.kind = Kind::rms, .weights = false}};
  for (const Kind kind : {Kind::rms, Kind::rms_whole, Kind::layer})
    for (const bool behind : {false, true})
      all.push_back({.kind = kind, .behind = behind, .clip = 0.5f, .beta = 0.1f});
  return all;
}

TEST(AttentionInput, AgreesWithThePlainForm) {
  const AttentionInput input;
  std::size_t number = 0;
  for (const Case& of : cases()) {
    const std::vector<float> expected = input.run({.backend = Backend::reference}, of, 0, kRows);
    for (const CpuLevel level : levels_here()) {
      const std::vector<float> actual = input.run({.level = level}, of, 0, kRows);
      for (std::size_t i = 0; i < expected.size(); ++i)
        ASSERT_NEAR(actual[i], expected[i], 2e-5 * (1 + std::fabs(expected[i])))
            << "case " << number << " " << cpu_level_name(level) << " element " << i;
    }
    ++number;
  }
}

TEST(AttentionInput, ARowHasTheBitsThatItHasAlone) {
  const AttentionInput input;
  ThreadPool pool(3);
  for (const Case& of : cases()) {
    const std::vector<float> all = input.run({.pool = &pool}, of, 0, kRows);
    const std::size_t width = all.size() / kRows;
    EXPECT_TRUE(same_bits(all, input.run({}, of, 0, kRows)));
    for (const std::int32_t row : {0, 33, kRows - 1}) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(width) * row;
      EXPECT_TRUE(same_bits(input.run({}, of, row, 1),
                            std::vector<float>(begin, begin + static_cast<std::ptrdiff_t>(width))));
    }
  }
}

TEST(AttentionInput, NormsClipsAndScalesByTheFormula) {
  // One head of two, of a product that is the identity; nothing is rotated at position 0.
  const std::vector<float> identity = {1, 0, 0, 1}, x = {3, -4}, weight = {2, 1}, turn = {1, 0};
  const TensorView view = {DType::f32, {2, 2}, reinterpret_cast<const std::byte*>(identity.data())};
  for (const Backend backend : {Backend::reference, Backend::cpu}) {
    const KernelContext context = {.backend = backend};
    auto packed = PackedLinear::pack(context, LinearType::float32, std::span(&view, 1));
    ASSERT_TRUE(packed);
    std::vector<float> out(2);
    const std::vector<std::int32_t> turns = {0}, positions = {7};
    attention_input(context, {.weight = &*packed,
                              .input = LinearInput::rows(x.data(), 2),
                              .num_rows = 1,
                              .num_query_heads = 1,
                              .head_size = 2,
                              .norms = {.kind = HeadNorms::Kind::rms, .query = weight.data()},
                              .clip = 1,
                              .rotary_size = 2,
                              .turns = turns,
                              .cos_sin = Buffer::of(turn.data(), 2),
                              .query_scale = {.beta = 1, .positions = 4},
                              .positions = positions,
                              .output = Buffer::of(out.data(), 2)});
    const double scale = 1 + std::log(2.0);  // position 7 is in the second four
    EXPECT_NEAR(out[0], scale, 1e-5);        // 2 * 3 / 3.54, cut off at 1
    EXPECT_NEAR(out[1], -scale, 1e-5);       // -4 / 3.54
  }
}

}  // namespace
}  // namespace pagoda
