// Goal: what an adapter adds to a product agrees with the reference at every level, in every form of product;
// and the rows of a batch have the bits that they have alone, those without an adapter the ones that they
// have where nobody has one, whatever the weights are stored as.
#include "kernels/low_rank.h"

#include <gtest/gtest.h>

#include "kernels/attention_input.h"
#include "kernels/linear.h"
#include "kernels/testing.h"

namespace pagoda {
namespace {

constexpr std::int32_t kSlot = 3;

// Factors of parts [first, first + outputs) of a matrix, each of a rank of its own.
struct PartShape {
  std::int64_t first = 0, outputs = 0;
  std::int32_t rank = 0;
};
LowRank factors_of(std::uint64_t seed, LowRank::Type type, std::int64_t k,
                   const std::vector<PartShape>& parts) {
  LowRank out(type, k);
  for (const PartShape& part : parts) {
    const auto rank = static_cast<std::size_t>(part.rank);
    const std::int32_t first = out.add_right(random_floats(++seed, rank * static_cast<std::size_t>(k), 0.2f));
    out.add_left(part.first, first, part.rank,
                 random_floats(++seed, rank * static_cast<std::size_t>(part.outputs), 0.2f), 0.5f);
  }
  return out;
}

AdapterFactors adapter_of(LowRank factors) {
  AdapterFactors out;
  out.matrices.resize(kSlot);
  out.matrices.push_back(std::move(factors));
  return out;
}

struct Matrices {
  std::vector<std::vector<std::byte>> bytes;
  std::vector<TensorView> views;
  Matrices& add(std::uint64_t seed, DType stored, std::int64_t n, std::int64_t k) {
    bytes.push_back(random_weights(seed, stored, n * k));
    views.push_back({stored, {n, k}, bytes.back().data()});
    return *this;
  }
  PackedLinear pack(const KernelContext& context, LinearType type, LinearForm form,
                    std::vector<float> bias = {}) const {
    auto packed = PackedLinear::pack(context, type, views, std::move(bias), form);
    CHECK(packed.has_value());
    packed->set_adapter_slot(kSlot);
    return *std::move(packed);
  }
};

LinearType type_of(DType stored) {
  return multiplies_in_int8(stored) ? LinearType::int8 : LinearType::bfloat16;
}

std::int64_t whole_blocks(DType stored, std::int64_t k) {
  const std::int64_t block = stored == DType::fp8 ? 128 : dtype_info(stored).block_elements;
  return (k + block - 1) / block * block;
}

std::vector<float> product(const KernelContext& context, const PackedLinear& weight, LinearInput input,
                           RowAdapters adapters, std::int64_t rows, const LinearOutput& output = {}) {
  std::vector<float> y(static_cast<std::size_t>(rows * weight.n()), 0.25f);
  input.adapters = adapters;
  linear(context, weight, input, rows, Buffer::of(y.data(), weight.n()), output);
  return y;
}

void expect_near(const std::vector<float>& actual, const std::vector<float>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  double largest = 0;
  for (const float value : expected) largest = std::max(largest, std::fabs(static_cast<double>(value)));
  for (std::size_t i = 0; i < actual.size(); ++i)
    ASSERT_NEAR(actual[i], expected[i], 1e-5 * (largest + 1e-3)) << "element " << i;
}

std::vector<float> rows_of(const std::vector<float>& all, std::int64_t width, std::int64_t first,
                           std::int64_t count) {
  return {all.begin() + first * width, all.begin() + (first + count) * width};
}

// Parts that begin and end inside of strips, of matrices that are packed as one run and as several, at sizes
// that are no multiples of anything.
TEST(LowRank, AgreesWithReference) {
  constexpr std::int64_t kRows = 19, kK = 77, kN = 150;
  const std::vector<float> x = random_floats(1, kRows * kK), weight = random_floats(2, kK),
                           bias = random_floats(3, kK), of_outputs = random_floats(4, 2 * kN + 23);
  for (const CpuLevel level : levels_here()) {
    for (const LowRank::Type kept : {LowRank::Type::float32, LowRank::Type::bfloat16}) {
      const AdapterFactors stacked = adapter_of(
                               factors_of(5, kept, kK, {{0, kN, 3}, {kN, 23, 1}, {kN + 23, 30, 17}})),
                           gated = adapter_of(factors_of(6, kept, kK, {{16, kN - 16, 9}, {kN, kN, 16}}));
      for (const bool gates : {false, true}) {
        const AdapterFactors& adapter = gates ? gated : stacked;
        std::vector<const AdapterFactors*> adapters(kRows, &adapter);
        for (std::size_t row = 2; row < kRows; row += 5) adapters[row] = nullptr;
        Matrices matrices;
        matrices.add(7, DType::f32, kN, kK).add(8, DType::bf16, gates ? kN : 23, kK);
        if (!gates) matrices.add(9, DType::f32, kN, kK);
        const LinearForm form = gates ? LinearForm::gated : LinearForm::stacked;
        const KernelContext cpu{.backend = Backend::cpu, .level = level},
            plain{.backend = Backend::reference};
        const std::vector<float> biases(of_outputs.begin(),
                                        of_outputs.begin() + (gates ? 2 * kN : 2 * kN + 23));
        const PackedLinear fast = matrices.pack(cpu, LinearType::float32, form, biases),
                           slow = matrices.pack(plain, LinearType::float32, form, biases);
        for (const LinearInput::Op op :
             {LinearInput::Op::none, LinearInput::Op::rms_norm, LinearInput::Op::layer_norm}) {
          LinearInput input = LinearInput::rows(x.data(), kK);
          input.op = op;
          input.weight = weight.data();
          input.bias = bias.data();
          input.eps = 1e-5f;
          std::vector<LinearOutput> outputs = {{.activation = Activation::silu}};
          if (!gates) outputs.insert(outputs.end(), {{}, {.accumulate = true}, {.read_late = true}});
          for (const LinearOutput& output : outputs) {
            SCOPED_TRACE(::testing::Message() << cpu_level_name(level) << " gated " << gates << " op "
                                              << static_cast<int>(op) << " of " << outputs.size());
            for (const std::int64_t rows : {std::int64_t{3}, kRows})  // few: in tiles of many strips
              expect_near(product(cpu, fast, input, adapters.data(), rows, output),
                          product(plain, slow, input, adapters.data(), rows, output));
            if (::testing::Test::HasFatalFailure()) return;
          }
        }
        if (gates) continue;
        std::vector<LogitMax> largest(kRows), expected(kRows);
        LinearInput input = LinearInput::rows(x.data(), kK);
        input.adapters = adapters.data();
        linear_max(cpu, fast, input, largest);
        linear_max(plain, slow, input, expected);
        for (std::size_t row = 0; row < kRows; ++row)
          EXPECT_EQ(largest[row].index, expected[row].index) << row;
      }
    }
  }
}

// A part's outputs are what B (A x) says, with the scale: the reference itself, by hand.
TEST(LowRank, TheReferenceIsTheSum) {
  constexpr std::int64_t kK = 3, kN = 4;
  Matrices zeros;
  zeros.bytes.emplace_back(kK * kN * 4);
  zeros.views.push_back({DType::f32, {kN, kK}, zeros.bytes.back().data()});
  const KernelContext plain{.backend = Backend::reference};
  const PackedLinear weight = zeros.pack(plain, LinearType::float32, LinearForm::stacked);
  LowRank factors(LowRank::Type::float32, kK);
  const std::vector<float> a = {1, 2, 3, 0, 1, 0}, b = {1, 10, 2, 20};  // [2, K], [2 outputs, 2]
  const std::int32_t first = factors.add_right(a);
  factors.add_left(1, first, 2, b, 0.5f);
  const AdapterFactors adapter = adapter_of(std::move(factors));
  const AdapterFactors* const adapters[] = {&adapter};
  const std::vector<float> x = {1, 1, 2};  // A x = 9, 1
  EXPECT_EQ(product(plain, weight, LinearInput::rows(x.data(), kK), adapters, 1),
            (std::vector<float>{0, 9.5f, 19, 0}));
}

class LowRankBits : public ::testing::TestWithParam<CpuLevel> {
 protected:
  static constexpr std::int64_t kRows = 37, kN = 150;
  KernelContext alone{.backend = Backend::cpu, .level = GetParam()};
  ThreadPool pool{3};
  KernelContext on_threads{.backend = Backend::cpu, .level = GetParam(), .pool = &pool};

  // Rows with one of two adapters, and rows with none.
  std::vector<const AdapterFactors*> mixed(const AdapterFactors& first, const AdapterFactors& second) const {
    std::vector<const AdapterFactors*> out(kRows, nullptr);
    for (std::size_t row = 0; row < kRows; ++row)
      if (row % 3 != 0) out[row] = row % 5 < 2 ? &first : &second;
    return out;
  }
  // `run(context, first row, rows, adapters)` gives rows of `width` floats.
  template <class Run>
  void expect_own_bits(const Run& run, std::int64_t width,
                       const std::vector<const AdapterFactors*>& adapters) {
    const std::vector<float> all = run(alone, 0, kRows, adapters.data()),
                             none = run(alone, 0, kRows, RowAdapters{});
    EXPECT_TRUE(same_bits(run(on_threads, 0, kRows, adapters.data()), all));
    for (const std::int64_t count : {1, 2, 3, 5, 11, 20}) {
      for (std::int64_t first = 0; first + count <= kRows; first += count == 1 ? 1 : 7)
        EXPECT_TRUE(same_bits(run(count < 4 ? on_threads : alone, first, count, adapters.data() + first),
                              rows_of(all, width, first, count)))
            << count << " rows from " << first;
    }
    bool changed = false;
    for (std::int64_t row = 0; row < kRows; ++row) {
      const bool same = same_bits(rows_of(all, width, row, 1), rows_of(none, width, row, 1));
      if (adapters[static_cast<std::size_t>(row)] == nullptr)
        EXPECT_TRUE(same) << row << " has no adapter";
      else
        changed |= !same;
    }
    EXPECT_TRUE(changed);
  }
};

TEST_P(LowRankBits, OfEveryTypeDependOnTheRowAlone) {
  for (const DType stored : weight_types()) {
    for (const LinearForm form : {LinearForm::stacked, LinearForm::gated}) {
      SCOPED_TRACE(::testing::Message() << dtype_info(stored).name << " form " << static_cast<int>(form));
      const std::int64_t k = whole_blocks(stored, 300);
      Matrices matrices;
      matrices.add(1, stored, kN, k).add(2, stored, kN, k);
      const PackedLinear weight = matrices.pack(alone, type_of(stored), form);
      const AdapterFactors first = adapter_of(
                               factors_of(3, LowRank::Type::bfloat16, k, {{0, kN, 4}, {kN, kN, 5}})),
                           second = adapter_of(factors_of(4, LowRank::Type::float32, k, {{kN, kN, 33}}));
      const std::vector<float> x = random_floats(5, static_cast<std::size_t>(kRows * k));
      const LinearOutput output = {.activation = form == LinearForm::gated ? std::optional(Activation::silu)
                                                                           : std::nullopt};
      expect_own_bits(
          [&](const KernelContext& context, std::int64_t row, std::int64_t rows, RowAdapters adapters) {
            return product(context, weight, LinearInput::rows(x.data() + row * k, k), adapters, rows, output);
          },
          weight.n(), mixed(first, second));
      if (HasFailure()) return;
    }
  }
}

// The products between two matrices lie in memory if a row has an adapter; others' bits stay.
TEST_P(LowRankBits, OfPairsDependOnTheRowAlone) {
  constexpr std::int64_t kInner = 256, kOut = 70;
  for (const DType stored : weight_types()) {
    for (const bool accumulate : {true, false}) {
      SCOPED_TRACE(::testing::Message() << dtype_info(stored).name << " " << accumulate);
      const std::int64_t k = whole_blocks(stored, 200);
      Matrices in, out;
      in.add(1, stored, kInner, k).add(2, stored, kInner, k);
      out.add(3, stored, kOut, kInner);
      PackedLinear first = in.pack(alone, type_of(stored), LinearForm::gated),
                   second = out.pack(alone, type_of(stored), LinearForm::stacked);
      second.set_adapter_slot(0);
      AdapterFactors one = adapter_of(factors_of(4, LowRank::Type::bfloat16, k, {{0, kInner, 4}})), other;
      one.matrices[0] = factors_of(5, LowRank::Type::float32, kInner, {{0, kOut, 8}});
      other.matrices.push_back(factors_of(6, LowRank::Type::bfloat16, kInner, {{0, kOut, 16}}));
      const std::vector<float> x = random_floats(7, static_cast<std::size_t>(kRows * k));
      expect_own_bits(
          [&](const KernelContext& context, std::int64_t row, std::int64_t rows, RowAdapters adapters) {
            std::vector<float> between(static_cast<std::size_t>(rows * kInner)),
                y(static_cast<std::size_t>(rows * kOut), 0.5f);
            LinearInput input = LinearInput::rows(x.data() + row * k, k);
            input.adapters = adapters;
            linear_pair(context, first, Activation::silu, second, input, rows,
                        Buffer::of(between.data(), kInner), Buffer::of(y.data(), kOut), accumulate);
            return y;
          },
          kOut, mixed(one, other));
      if (HasFailure()) return;
    }
  }
}

// Behind the product and before norms and rotation.
TEST_P(LowRankBits, OfAttentionsInputComeBeforeNormsAndRotation) {
  constexpr std::int64_t kK = 64, kHead = 8, kHeads = 4, kKv = 2, kWidth = (kHeads + 2 * kKv) * kHead;
  Matrices qkv;
  qkv.add(1, DType::f32, kHeads * kHead, kK)
      .add(2, DType::f32, kKv * kHead, kK)
      .add(3, DType::f32, kKv * kHead, kK);
  const KernelContext plain{.backend = Backend::reference};
  const PackedLinear fast = qkv.pack(alone, LinearType::float32, LinearForm::stacked),
                     slow = qkv.pack(plain, LinearType::float32, LinearForm::stacked);
  const AdapterFactors one =
                           adapter_of(factors_of(4, LowRank::Type::float32, kK,
                                                 {{0, kHeads * kHead, 4}, {kHeads * kHead, kKv * kHead, 2}})),
                       other = adapter_of(factors_of(5, LowRank::Type::bfloat16, kK, {{48, 16, 3}}));
  const std::vector<float> x = random_floats(6, kRows * kK), norm = random_floats(7, kHead),
                           turns = random_floats(8, 64 * kHead);
  std::vector<std::int32_t> index(kRows);
  for (std::size_t row = 0; row < index.size(); ++row) index[row] = static_cast<std::int32_t>(row);
  const auto run = [&](const KernelContext& context, std::int64_t row, std::int64_t rows,
                       RowAdapters adapters) {
    std::vector<float> y(static_cast<std::size_t>(rows * kWidth));
    LinearInput input = LinearInput::rows(x.data() + row * kK, kK);
    input.adapters = adapters;
    attention_input(
        context,
        {.weight = context.backend == Backend::reference ? &slow : &fast,
         .input = input,
         .num_rows = rows,
         .num_query_heads = kHeads,
         .num_kv_heads = kKv,
         .head_size = kHead,
         .norms = {.kind = HeadNorms::Kind::rms, .query = norm.data(), .key = norm.data(), .eps = 1e-5f},
         .rotary_size = kHead,
         .turns = std::span(index).subspan(static_cast<std::size_t>(row)),
         .cos_sin = Buffer::of(turns.data(), kHead),
         .output = Buffer::of(y.data(), kWidth)});
    return y;
  };
  const auto adapters = mixed(one, other);
  expect_own_bits(run, kWidth, adapters);
  expect_near(run(alone, 0, kRows, adapters.data()), run(plain, 0, kRows, adapters.data()));
}

INSTANTIATE_TEST_SUITE_P(Levels, LowRankBits, ::testing::ValuesIn(levels_here()),
                         [](const auto& info) { return std::string(cpu_level_name(info.param)); });

}  // namespace
}  // namespace pagoda
