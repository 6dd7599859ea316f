#include "models/quantize_gguf.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <limits>

#include "kernels/dequantize.h"
#include "kernels/testing.h"
#include "loader/test_files.h"
#include "loader/test_gguf.h"

namespace pagoda {
namespace {

using testing::GgufBuilder;

constexpr std::uint32_t kF32 = 0, kF16 = 1;

std::string text(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

// A file with tensors of every kind that the plan tells apart.
std::string model(bool with_head = true, float weight = 1) {
  GgufBuilder builder;
  builder.string("general.architecture", "llama").string("general.name", "small");
  builder.u32("general.file_type", 0).u32("split.count", 0);
  builder.strings("tokenizer.ggml.tokens", {"a", "", "\xFF"}).array<std::int16_t>("odd.list", 3, {1, -2, 3});
  std::uint64_t seed = 0;
  const auto put = [&](const std::string& name, std::uint64_t columns, std::uint64_t rows) {
    std::vector<float> values = random_floats(++seed, columns * rows, 0.1f);
    values.back() *= weight;
    builder.tensor(name, {columns, rows}, kF32, text(values));
  };
  put("token_embd.weight", 256, 8);
  if (with_head) put("output.weight", 256, 8);
  put("blk.0.attn_q.weight", 512, 3);
  put("blk.0.attn_k.weight", 96, 4);  // no whole block of 256
  put("blk.0.attn_v.weight", 40, 4);  // nor of 32
  put("blk.0.ffn_gate_inp.weight", 256, 4);
  put("blk.0.attn_norm.weight", 256, 1);
  put("blk.0.attn_q_norm.weight", 32, 4);
  put("blk.0.attn_q.bias", 256, 2);
  builder.tensor("blk.0.half.weight", {32, 2}, kF16, std::string(128, '\x3c'));
  return builder.build();
}

std::unique_ptr<ModelSource> opened(const std::string& path) {
  auto source = ModelSource::open(path);
  EXPECT_TRUE(source) << source.error().message();
  return source ? *std::move(source) : nullptr;
}

std::string planned(const GgufFile& file, DType type) {
  std::string out;
  for (const DType each : plan_quantization(model_of(file), type))
    out += std::string(dtype_info(each).name) + " ";
  return out;
}

TEST(QuantizeGguf, WhichTensorGetsWhichType) {
  const testing::ScratchFolder scratch;
  const auto source = opened(scratch.write("a.gguf", model()));
  const std::string kept = "F32 F32 F32 F32 ";
  EXPECT_EQ(planned(*source->gguf(), DType::q4_k), "Q4_K Q6_K Q4_K Q5_0 F16 " + kept + "Q5_0 ");
  EXPECT_EQ(planned(*source->gguf(), DType::q6_k), "Q6_K Q6_K Q6_K Q8_0 F16 " + kept + "Q8_0 ");
  EXPECT_EQ(planned(*source->gguf(), DType::q4_0), "Q4_0 Q6_K Q4_0 Q4_0 F16 " + kept + "Q4_0 ");
  EXPECT_EQ(planned(*source->gguf(), DType::q8_0), "Q8_0 Q8_0 Q8_0 Q8_0 F16 " + kept + "Q8_0 ");
  EXPECT_EQ(planned(*source->gguf(), DType::bf16), "BF16 BF16 BF16 BF16 BF16 " + kept + "BF16 ");
  const auto tied = opened(scratch.write("b.gguf", model(/*with_head=*/false)));
  EXPECT_EQ(planned(*tied->gguf(), DType::q4_k).substr(0, 10), "Q6_K Q4_K ") << "the embedding is the head";
}

TEST(QuantizeGguf, CarriesEverythingOver) {
  const testing::ScratchFolder scratch;
  ThreadPool pool(2);
  const auto source = opened(scratch.write("a.gguf", model()));
  const std::string to = scratch.path() + "/b.gguf";
  std::int64_t last = 0;
  const auto done =
      quantize_gguf(*source, model_of(*source->gguf()), DType::q8_0, to, pool, [&](std::int64_t bytes) {
        EXPECT_GE(bytes, last);
        last = bytes;
      });
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(last, done->bytes_before);
  EXPECT_EQ(done->twice, 0);
  const auto result = opened(to);
  const GgufFile &before = *source->gguf(), &after = *result->gguf();
  EXPECT_EQ(after.integer("general.file_type"), 7);
  EXPECT_EQ(after.integer("general.quantization_version"), 2);
  EXPECT_EQ(after.integer("split.count"), std::nullopt);
  EXPECT_EQ(*after.string("general.name"), "small");
  EXPECT_EQ(after.array("tokenizer.ggml.tokens")->strings, before.array("tokenizer.ggml.tokens")->strings);
  EXPECT_EQ(after.array("odd.list")->integers, (std::vector<std::int64_t>{1, -2, 3}));
  ASSERT_EQ(after.tensor_list().size(), before.tensor_list().size());
  for (std::size_t i = 0; i < before.tensor_list().size(); ++i) {
    const FileTensor &from = before.tensor_list()[i], &made = after.tensor_list()[i];
    EXPECT_EQ(made.name, from.name);
    EXPECT_EQ(made.shape, from.shape);
    const std::int64_t count = TensorView{*from.dtype, from.shape, from.data}.elements();
    std::vector<float> expected(static_cast<std::size_t>(count)), actual(expected.size());
    dequantize(*from.dtype, from.data, count, expected.data());
    dequantize(*made.dtype, made.data, count, actual.data());
    for (std::size_t at = 0; at < expected.size(); ++at)
      ASSERT_NEAR(actual[at], expected[at], 0.001 + std::fabs(expected[at]) / 1000) << made.name << " " << at;
  }
}

TEST(QuantizeGguf, WritesAWholeNewFileOrNone) {
  const testing::ScratchFolder scratch;
  ThreadPool pool(1);
  const auto source = opened(scratch.write("a.gguf", model()));
  const std::string there = scratch.write("there.gguf", "mine");
  const auto refused =
      quantize_gguf(*source, model_of(*source->gguf()), DType::q4_k, there, pool, [](std::int64_t) {});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("File exists"), std::string::npos) << refused.error().message();
  EXPECT_EQ(testing::read_binary(there), "mine");

  const auto broken =
      opened(scratch.write("broken.gguf", model(true, std::numeric_limits<float>::quiet_NaN())));
  const std::string to = scratch.path() + "/new.gguf";
  const auto failed =
      quantize_gguf(*broken, model_of(*broken->gguf()), DType::q4_k, to, pool, [](std::int64_t) {});
  ASSERT_FALSE(failed);
  EXPECT_NE(failed.error().message().find("'token_embd.weight' has a weight that is not a finite number"),
            std::string::npos)
      << failed.error().message();
  EXPECT_FALSE(std::filesystem::exists(to));
  EXPECT_FALSE(quantize_gguf(*source, model_of(*source->gguf()), DType::q4_k, "/no/such/folder/x.gguf", pool,
                             [](std::int64_t) {}));
}

}  // namespace
}  // namespace pagoda
