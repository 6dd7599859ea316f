#include "models/quantize/quantize_gguf.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <limits>

#include "kernels/dequantize.h"
#include "kernels/testing.h"
#include "loader/test_files.h"
#include "loader/test_gguf.h"
#include "models/quantize/test_sources.h"

namespace pagoda {
namespace {

using testing::GgufBuilder;
using testing::opened;

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

// Each of what may become of rows on the way, alone.
TEST(QuantizeGguf, ChangesRows) {
  const testing::ScratchFolder scratch;
  ThreadPool pool(1);
  const auto source = opened(scratch.write("a.gguf", model()));
  const std::vector<float> values = {1, 2, 3, 4, 5, 6, 7, 8};  // 4 rows of 2, or 2 of 4
  const auto part = [&](std::vector<std::int64_t> shape, std::size_t first = 0) {
    return GgufPart{
        .stored = {DType::f32, std::move(shape), reinterpret_cast<const std::byte*>(values.data() + first)}};
  };
  GgufPart doubled = part({2, 2}), flipped = part({2, 4});
  doubled.factor = 2;
  flipped.transposed = true;
  const GgufModel changed = {
      .metadata = {text_entry("general.architecture", "llama")},
      .tensors = {{.name = "parts", .shape = {4, 2}, .parts = {part({2, 2}, 4), doubled}},
                  {.name = "flipped", .shape = {4, 2}, .parts = {flipped}},
                  {.name = "plus", .shape = {8}, .parts = {part({8})}, .offset = 1},
                  {.name = "columns", .shape = {2, 4}, .parts = {part({2, 4})}, .column_blocks = {1, 0}},
                  {.name = "turned",
                   .shape = {8},
                   .parts = {part({8})},
                   .head_size = 8,
                   .rotary_begin = 2,
                   .rotary_size = 4}},
      .alignment = 32};
  const std::string to = scratch.path() + "/b.gguf";
  const auto done = quantize_gguf(*source, changed, DType::f32, to, pool, [](std::int64_t) {});
  ASSERT_TRUE(done) << done.error().message();
  const auto result = opened(to);
  const auto made = [&](std::string_view name) {
    std::vector<float> got(8);
    std::memcpy(got.data(), result->find(name)->data, sizeof(float) * got.size());
    return got;
  };
  EXPECT_EQ(made("parts"), (std::vector<float>{5, 6, 7, 8, 2, 4, 6, 8}));
  EXPECT_EQ(made("flipped"), (std::vector<float>{1, 5, 2, 6, 3, 7, 4, 8}));
  EXPECT_EQ(made("plus"), (std::vector<float>{2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(made("columns"), (std::vector<float>{3, 4, 1, 2, 7, 8, 5, 6}));
  EXPECT_EQ(made("turned"), (std::vector<float>{1, 2, 3, 5, 4, 6, 7, 8}));
}

}  // namespace
}  // namespace pagoda
