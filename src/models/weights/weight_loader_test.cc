#include "models/weights/weight_loader.h"

#include <gtest/gtest.h>

#include <array>

#include "kernels/dequantize.h"
#include "kernels/testing.h"
#include "loader/test_files.h"
#include "loader/test_gguf.h"
#include "models/weights/expert_weights.h"

namespace pagoda {
namespace {

using testing::GgufBuilder;

constexpr std::uint64_t kRows = 12, kColumns = 128, kInner = 64, kExperts = 3;
constexpr std::uint32_t kF32 = 0, kNvfp4 = 40;

std::string_view text(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
std::string_view text(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

// A matrix, a matrix with a bias and the matrices of experts: as NVFP4 with factors, or what these mean as
// float32.
std::string file_of(std::uint32_t type) {
  GgufBuilder builder;
  builder.string("general.architecture", "llama");
  std::uint64_t seed = 0;
  const auto put = [&](const std::string& name, std::uint64_t count, std::uint64_t rows,
                       std::uint64_t columns) {
    const std::uint64_t elements = count * rows * columns;
    const auto blocks = random_weights(++seed, DType::nvfp4, static_cast<std::int64_t>(elements));
    const std::vector<float> factors = random_floats(++seed, count, 3);
    const std::vector<std::uint64_t> extents = {columns, rows, count};
    if (type == kNvfp4) {
      builder.tensor(name + ".weight", extents, type, text(blocks));
      builder.tensor(name + ".scale", {count}, kF32, text(factors));
      builder.tensor(name + ".input_scale", {count}, kF32, text(factors));
      return;
    }
    std::vector<float> values(elements);
    dequantize(DType::nvfp4, blocks.data(), static_cast<std::int64_t>(elements), values.data());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] *= factors[i / (rows * columns)];
    builder.tensor(name + ".weight", extents, type, text(values));
  };
  put("plain", 1, kRows, kColumns);
  put("biased", 1, kRows, kColumns);
  builder.tensor("biased.bias", {kRows}, kF32, text(random_floats(77, kRows)));
  put("up", kExperts, kInner, kColumns);
  put("down", kExperts, kColumns, kInner);
  return builder.build();
}

// The products of some rows with all of them.
std::vector<float> products(const std::string& path) {
  const auto source = ModelSource::open(path);
  CHECK(source);
  const KernelContext context;
  const WeightNames names;
  WeightStore store;
  WeightLoader loader(context, **source, names, 0, "float32", store);
  const std::vector<float> x = random_floats(5, 2 * kColumns);
  std::vector<float> all;
  const auto multiply = [&](const PackedLinear& matrix) {
    std::vector<float> y(static_cast<std::size_t>(matrix.n()));
    linear(context, matrix, LinearInput::rows(x.data(), matrix.k()), 1, Buffer::of(y.data(), matrix.n()));
    all.insert(all.end(), y.begin(), y.end());
  };
  multiply(loader.linear("plain", kRows, kColumns));
  multiply(loader.linear("biased", kRows, kColumns, 2));
  LayerShard shard;
  shard.exchange = ExchangeKind::sum;
  multiply(loader.last_linear("biased", kRows, kColumns, {64, 64}, shard));
  const MixtureConfig mixture = {.routing = {.num_experts = kExperts, .per_token = 1},
                                 .expert = {.intermediate_size = kInner, .gated = false}};
  ExpertNames experts;
  experts.up = "up";
  experts.down = "down";
  read_experts(mixture, experts, "", kColumns, {{0, kExperts}, {0, kInner}, {0, kColumns}}, loader,
               [&](ExpertMatrix, Matrices matrices, const std::string& name) {
                 multiply(loader.pack(std::move(matrices), name));
               });
  EXPECT_TRUE(loader.status().ok()) << loader.status().message();
  EXPECT_TRUE(loader.reader().unused().empty()) << loader.reader().unused().front();
  return all;
}

TEST(WeightLoader, Nvfp4WeightsAreTimesTheirFactors) {
  const testing::ScratchFolder scratch;
  const std::vector<float> scaled = products(scratch.write("nvfp4.gguf", file_of(kNvfp4))),
                           plain = products(scratch.write("f32.gguf", file_of(kF32)));
  ASSERT_EQ(scaled.size(), plain.size());
  for (std::size_t i = 0; i < plain.size(); ++i)
    EXPECT_NEAR(scaled[i], plain[i], 1e-4f * (1 + std::fabs(plain[i]))) << "product " << i;
}

// AutoGPTQ gives every matrix a bias, of zeros where the model has none.
TEST(WeightReader, DoesNotMissABiasOfZeros) {
  const testing::ScratchFolder scratch;
  scratch.write("config.json", "{}");
  scratch.write("model.safetensors",
                testing::safetensors(R"({"a.bias":{"dtype":"F16","shape":[2],"data_offsets":[0,4]},
                                         "b.bias":{"dtype":"F16","shape":[2],"data_offsets":[4,8]}})",
                                     std::string_view("\0\0\0\0\0\0\0\x3c", 8)));
  const auto source = ModelSource::open(scratch.path());
  ASSERT_TRUE(source) << source.error().message();
  EXPECT_EQ(WeightReader(**source, "", {}).unused(), (std::vector<std::string>{"b.bias"}));
}

}  // namespace
}  // namespace pagoda
