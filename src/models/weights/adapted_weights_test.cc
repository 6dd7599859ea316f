// Goal: the tensors of a model with an adapter are the sums that llama.cpp computes beside it, of any type of
// GGUF, whichever rows are brought in; PEFT's are in cli/assembly/with_adapters_test.cc.
#include "models/weights/adapted_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "kernels/dequantize.h"
#include "loader/test_files.h"
#include "loader/test_gguf.h"

namespace pagoda {
namespace {

using testing::GgufBuilder;
using testing::ScratchFolder;

constexpr std::int64_t kAdaptedColumns = 32, kAdaptedRows = 3, kRank = 2;

std::string floats(std::int64_t count, float first) {
  std::string bytes;
  for (std::int64_t i = 0; i < count; ++i) GgufBuilder::put(bytes, first + 0.25f * static_cast<float>(i % 7));
  return bytes;
}

// A Q4_0 matrix of scale 0.5 and nibbles that count.
std::string q4_0() {
  std::string bytes;
  for (std::int64_t row = 0; row < kAdaptedRows; ++row) {
    GgufBuilder::put<std::uint16_t>(bytes, 0x3800);
    for (int i = 0; i < 16; ++i) bytes += static_cast<char>(i * 16 + (i + static_cast<int>(row)) % 16);
  }
  return bytes;
}

class AdaptedGguf : public ::testing::Test {
 protected:
  static std::string model_file(const ScratchFolder& folder, const std::string& architecture) {
    GgufBuilder file;
    file.string("general.architecture", architecture);
    file.tensor("token_embd.weight", {kAdaptedColumns, kAdaptedRows}, 0,
                floats(kAdaptedColumns * kAdaptedRows, 1));
    file.tensor("blk.0.attn_v.weight", {kAdaptedColumns, kAdaptedRows}, 2, q4_0());
    return folder.write("model.gguf", file.build());
  }
  Result<std::unique_ptr<ModelSource>> open(const std::string& of,
                                            const std::string& architecture = "llama") const {
    GgufBuilder file;
    file.string("general.type", "adapter")
        .string("adapter.type", "lora")
        .string("general.architecture", "llama");
    file.f32("adapter.lora.alpha", 1);
    file.tensor(of + ".lora_a", {kAdaptedColumns, kRank}, 0, floats(kAdaptedColumns * kRank, -1));
    file.tensor(of + ".lora_b", {kRank, kAdaptedRows}, 0, floats(kRank * kAdaptedRows, 2));
    PAGODA_ASSIGN_OR_RETURN(auto model, ModelSource::open(model_file(folder_, architecture)));
    PAGODA_ASSIGN_OR_RETURN(Adapter adapter,
                            Adapter::open(folder_.write("adapter.gguf", file.build()), 2, {}));
    return with_adapter(std::move(model), std::move(adapter));
  }
  ScratchFolder folder_;
};

TEST_F(AdaptedGguf, RowsAreTheModelsWithTheSums) {
  const auto source = open("blk.0.attn_v.weight");
  ASSERT_TRUE(source) << source.error().message();
  const TensorView* const got = (*source)->find("blk.0.attn_v.weight");
  ASSERT_NE(got, nullptr);
  EXPECT_EQ(got->dtype, DType::bf16);
  const auto base = ModelSource::open(folder_.path() + "/model.gguf");
  const TensorView* const stored = (*base)->find("blk.0.attn_v.weight");
  ASSERT_EQ(stored->dtype, DType::q4_0);
  const auto a = [](std::int64_t k, std::int64_t i) {
    return -1 + 0.25f * static_cast<float>((k * kAdaptedColumns + i) % 7);
  };
  const auto b = [](std::int64_t row, std::int64_t k) {
    return 2 + 0.25f * static_cast<float>((row * kRank + k) % 7);
  };
  for (int turn = 0; turn < 2; ++turn)  // again, once their memory was given back
    for (const std::int64_t row : {std::int64_t{2}, std::int64_t{0}, std::int64_t{1}}) {
      const TensorView one = {got->dtype, {1, kAdaptedColumns}, got->data + row * kAdaptedColumns * 2};
      ASSERT_TRUE((*source)->bring_in(one).ok());
      std::vector<float> values(kAdaptedColumns), before(kAdaptedColumns);
      dequantize_row(*got, row, values.data());
      dequantize_row(*stored, row, before.data());
      for (std::int64_t i = 0; i < kAdaptedColumns; ++i) {
        const float sum = 2 * 0.5f * (b(row, 0) * a(0, i) + b(row, 1) * a(1, i));
        const auto at = static_cast<std::size_t>(i);
        EXPECT_NEAR(values[at], before[at] + sum, std::abs(before[at] + sum) / 256) << row << " " << i;
      }
      (*source)->give_back(one);
    }
  const TensorView* const other = (*source)->find("token_embd.weight");
  EXPECT_EQ(other->dtype, DType::f32) << "the rest is the model's";
  EXPECT_TRUE((*source)->bring_in(*other).ok());
}

// Beside an NVFP4 tensor its file has a scale of the whole, which the changed tensor has taken.
TEST(AdaptedNvfp4, TheScaleBesideATensorIsInIt) {
  constexpr std::int64_t kWide = 64;
  std::string codes;
  for (std::int64_t row = 0; row < kAdaptedRows; ++row) {
    for (const char scale : {0x38, 0x40, 0x30, 0x38}) codes += scale;
    for (int i = 0; i < 32; ++i) codes += static_cast<char>(i * 37 + row);
  }
  const ScratchFolder folder;
  GgufBuilder model, file;
  model.string("general.architecture", "llama");
  model.tensor("blk.0.attn_v.weight", {kWide, kAdaptedRows}, 40, codes);
  model.tensor("blk.0.attn_v.scale", {1}, 0, floats(1, 0.125f));
  file.string("general.type", "adapter")
      .string("adapter.type", "lora")
      .string("general.architecture", "llama");
  file.f32("adapter.lora.alpha", 1);
  file.tensor("blk.0.attn_v.weight.lora_a", {kWide, 1}, 0, std::string(4 * kWide, '\0'));
  file.tensor("blk.0.attn_v.weight.lora_b", {1, kAdaptedRows}, 0, floats(kAdaptedRows, 2));
  const std::string path = folder.write("model.gguf", model.build());
  auto opened = ModelSource::open(path);
  ASSERT_TRUE(opened) << opened.error().message();
  const auto base = ModelSource::open(path);
  auto adapter = Adapter::open(folder.write("adapter.gguf", file.build()), 1, {});
  ASSERT_TRUE(adapter) << adapter.error().message();
  const auto source = with_adapter(*std::move(opened), *std::move(adapter));
  ASSERT_TRUE(source) << source.error().message();
  EXPECT_EQ((*source)->tensor_names(), (std::vector<std::string>{"blk.0.attn_v.weight"}));
  const TensorView* const got = (*source)->find("blk.0.attn_v.weight");
  const TensorView* const stored = (*base)->find("blk.0.attn_v.weight");
  ASSERT_EQ(stored->dtype, DType::nvfp4);
  ASSERT_TRUE((*source)->bring_in(*got).ok() && (*base)->bring_in(*stored).ok());
  std::vector<float> before(kWide), values(kWide);
  for (std::int64_t row = 0; row < kAdaptedRows; ++row) {
    dequantize_row(*stored, row, before.data());
    dequantize_row(*got, row, values.data());
    for (std::size_t i = 0; i < before.size(); ++i)
      ASSERT_NEAR(values[i], 0.125f * before[i], std::abs(before[i]) / 1024) << row << " " << i;
  }
}

// The head of a GGUF file without one is its embedding; an adapter's is then a head of its own.
TEST_F(AdaptedGguf, AHeadThatWasTheEmbeddingIsATensorOfItsOwn) {
  const auto source = open("output.weight");
  ASSERT_TRUE(source) << source.error().message();
  EXPECT_NE((*source)->find("output.weight"), nullptr);
  EXPECT_EQ((*source)->tensor_names(),
            (std::vector<std::string>{"blk.0.attn_v.weight", "output.weight", "token_embd.weight"}));
}

TEST_F(AdaptedGguf, WhatDoesNotFitIsRefused) {
  const auto refusal = [&](const auto& source) {
    return source ? std::string("opened") : source.error().message();
  };
  EXPECT_NE(
      refusal(open("blk.0.attn_v.weight", "qwen2")).find("architecture 'llama', and this one is 'qwen2'"),
      std::string::npos);
  EXPECT_NE(refusal(open("blk.7.attn_v.weight")).find("'blk.7.attn_v.weight', which the model does not have"),
            std::string::npos);
}

// A matrix that its folder has quantised is the one that the folder means, with the sum in one place.
TEST(AdaptedFolder, QuantisedMatricesTakeSums) {
  constexpr std::string_view kMatrix = "model.layers.0.self_attn.q_proj.weight";
  for (const char* name : {"awq", "bitnet", "bnb_int8", "fp8_block", "gptq", "mlx", "modelopt_nvfp4"}) {
    SCOPED_TRACE(name);
    const std::string path = std::string(PAGODA_SOURCE_DIR "/tests/fixtures/quantized/") + name;
    auto model = ModelSource::open(path);
    ASSERT_TRUE(model) << model.error().message();
    const auto base = ModelSource::open(path);
    const TensorView* const stored = (*base)->find(kMatrix);
    ASSERT_NE(stored, nullptr);
    const std::int64_t rows = stored->rows(), columns = stored->columns();

    const ScratchFolder folder;
    std::string factors(static_cast<std::size_t>(4 * (rows + columns)), '\0');
    const float one = 1, two = 2;
    std::memcpy(factors.data() + 4, &two, 4);                  // A[0, 1]
    std::memcpy(factors.data() + 4 * (columns + 3), &one, 4);  // B[3, 0]
    const std::string module = R"("base_model.model.model.layers.0.self_attn.q_proj)";
    const std::string entry = R"(":{"dtype":"F32","shape":[)";
    folder.write("adapter_config.json", R"({"peft_type":"LORA","lora_alpha":1})");
    folder.write("adapter_model.safetensors",
                 testing::safetensors(
                     concat("{", module, ".lora_A.weight", entry, "1,", columns, R"(],"data_offsets":[0,)",
                            4 * columns, "]},", module, ".lora_B.weight", entry, rows,
                            R"(,1],"data_offsets":[)", 4 * columns, ",", 4 * (rows + columns), "]}}"),
                     factors));
    auto adapter = Adapter::open(folder.path(), 1, {});
    ASSERT_TRUE(adapter) << adapter.error().message();
    const auto source = with_adapter(*std::move(model), *std::move(adapter));
    ASSERT_TRUE(source) << source.error().message();
    const TensorView* const got = (*source)->find(kMatrix);
    ASSERT_TRUE((*source)->bring_in(*got).ok() && (*base)->bring_in(*stored).ok());
    std::vector<float> before(static_cast<std::size_t>(columns)), values(before.size());
    for (std::int64_t row = 0; row < rows; ++row) {
      dequantize_row(*stored, row, before.data());
      dequantize_row(*got, row, values.data());
      if (row == 3) before[1] += 2;
      for (std::size_t i = 0; i < before.size(); ++i)
        ASSERT_NEAR(values[i], before[i], std::abs(before[i]) / 256) << row << " " << i;
    }
  }
}

}  // namespace
}  // namespace pagoda
