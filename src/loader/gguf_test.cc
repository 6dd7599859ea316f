#include "loader/gguf.h"

#include <gtest/gtest.h>

#include "loader/ggml_types.h"
#include "loader/test_gguf.h"

namespace pagoda {
namespace {

using testing::as_bytes;
using testing::GgufBuilder;

std::string gguf_error(const std::string& bytes) {
  const Result<GgufFile> file = GgufFile::parse(as_bytes(bytes));
  return file ? "opened" : file.error().message();
}

void expect_gguf_refused(const std::string& bytes, std::string_view why) {
  EXPECT_NE(gguf_error(bytes).find(why), std::string::npos) << "got: " << gguf_error(bytes);
}

TEST(Gguf, ReadsEveryKindOfMetadata) {
  const std::string bytes = GgufBuilder()
                                .scalar<std::uint8_t>("u8", 0, 200)
                                .scalar<std::int8_t>("i8", 1, -5)
                                .scalar<std::uint16_t>("u16", 2, 60000)
                                .scalar<std::int16_t>("i16", 3, -6)
                                .u32("u32", 4'000'000'000u)
                                .scalar<std::int32_t>("i32", 5, -7)
                                .f32("f32", 0.5f)
                                .scalar<std::uint8_t>("yes", 7, 1)
                                .string("name", "pagoda")
                                .scalar<std::uint64_t>("u64", 10, ~std::uint64_t{0})
                                .scalar<std::int64_t>("i64", 11, -8)
                                .scalar<double>("f64", 12, 0.25)
                                .strings("tokens", {"a", "", "\xFF"})
                                .array<std::int32_t>("types", 5, {1, -2})
                                .array<float>("scores", 6, {0.5f})
                                .array<std::uint8_t>("flags", 7, {1, 0})
                                .build();
  const Result<GgufFile> file = GgufFile::parse(as_bytes(bytes));
  ASSERT_TRUE(file) << file.error().message();
  EXPECT_EQ(file->version(), 3u);
  EXPECT_EQ(file->integer("u8"), 200);
  EXPECT_EQ(file->integer("i8"), -5);
  EXPECT_EQ(file->integer("u16"), 60000);
  EXPECT_EQ(file->integer("i16"), -6);
  EXPECT_EQ(file->integer("u32"), 4'000'000'000);
  EXPECT_EQ(file->integer("i32"), -7);
  EXPECT_EQ(file->integer("i64"), -8);
  EXPECT_EQ(file->integer("u64"), std::nullopt) << "does not fit";
  EXPECT_EQ(file->number("f32"), 0.5);
  EXPECT_EQ(file->number("f64"), 0.25);
  EXPECT_EQ(file->number("i8"), -5.0);
  EXPECT_EQ(file->boolean("yes"), true);
  ASSERT_NE(file->string("name"), nullptr);
  EXPECT_EQ(*file->string("name"), "pagoda");
  EXPECT_EQ(file->string("u8"), nullptr);
  EXPECT_EQ(file->integer("absent"), std::nullopt);
  ASSERT_NE(file->array("tokens"), nullptr);
  EXPECT_EQ(file->array("tokens")->strings, (std::vector<std::string_view>{"a", "", "\xFF"}));
  EXPECT_EQ(file->array("types")->integers, (std::vector<std::int64_t>{1, -2}));
  EXPECT_EQ(file->array("scores")->floats, (std::vector<double>{0.5}));
  EXPECT_EQ(file->array("flags")->booleans, (std::vector<bool>{true, false}));
  EXPECT_TRUE(file->tensors().empty());
}

TEST(Gguf, ReadsTensorsOfEverySupportedType) {
  GgufBuilder builder(2);
  for (std::uint32_t number = 0; number < 64; ++number) {
    const GgmlType* type = find_ggml_type(number);
    if (type == nullptr || !type->dtype) continue;
    // Two rows of two blocks.
    const auto bytes = static_cast<std::size_t>(4 * type->block_bytes);
    builder.tensor(type->name, {static_cast<std::uint64_t>(2 * type->block_elements), 2}, number,
                   std::string(bytes, static_cast<char>('A' + number)));
  }
  const std::string bytes = builder.build();
  const Result<GgufFile> file = GgufFile::parse(as_bytes(bytes));
  ASSERT_TRUE(file) << file.error().message();
  EXPECT_TRUE(file->check_supported().ok());
  EXPECT_EQ(file->tensors().size(), 28u);
  for (const FileTensor& tensor : file->tensor_list()) {
    const TensorView& view = file->tensors().at(tensor.name);
    EXPECT_EQ(dtype_info(view.dtype).name, tensor.name);
    EXPECT_EQ(view.bytes(), tensor.bytes);
    EXPECT_EQ(view.shape, (std::vector<std::int64_t>{2, 2 * dtype_info(view.dtype).block_elements}));
    EXPECT_EQ(view.data[0], view.data[view.bytes() - 1]);
    EXPECT_EQ(view.data, tensor.data);
  }
}

TEST(Gguf, NamesATypeThatIsNotRun) {
  const std::string bytes = GgufBuilder().tensor("blk.0.x", {256}, 15, std::string(292, 'x')).build();
  const Result<GgufFile> file = GgufFile::parse(as_bytes(bytes));
  ASSERT_TRUE(file) << file.error().message();
  EXPECT_TRUE(file->tensors().empty());
  EXPECT_EQ(
      file->check_supported().message(),
      "tensor 'blk.0.x' has type Q8_K, which is not supported; supported: F32, F16, Q4_0, Q4_1, Q5_0, "
      "Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ2_XXS, IQ2_XS, IQ3_XXS, IQ1_S, IQ4_NL, IQ3_S, IQ2_S, "
      "IQ4_XS, IQ1_M, BF16, TQ1_0, TQ2_0, MXFP4, NVFP4, Q1_0, Q2_0");
}

TEST(Gguf, ReversesExtents) {
  const std::string bytes = GgufBuilder().tensor("w", {4, 3, 2}, 0, std::string(96, 'x')).build();
  const Result<GgufFile> file = GgufFile::parse(as_bytes(bytes));
  ASSERT_TRUE(file);
  EXPECT_EQ(file->tensors().at("w").shape, (std::vector<std::int64_t>{2, 3, 4}));
}

TEST(Gguf, HonoursAlignment) {
  GgufBuilder builder;
  builder.alignment = 128;
  builder.u32("general.alignment", 128);
  const std::string bytes = builder.tensor("a", {1}, 0, "aaaa").tensor("b", {1}, 0, "bbbb").build();
  const Result<GgufFile> file = GgufFile::parse(as_bytes(bytes));
  ASSERT_TRUE(file) << file.error().message();
  EXPECT_EQ(file->tensors().at("b").data[0], std::byte{'b'});
  EXPECT_EQ(file->tensors().at("b").data - file->tensors().at("a").data, 128);
}

TEST(Gguf, RefusesByName) {
  const auto with_version = [](std::uint32_t version) { return GgufBuilder(version).u32("k", 1).build(); };
  expect_gguf_refused("", "the file is empty");
  expect_gguf_refused("version https://git-lfs.github.com/spec/v1\noid sha256:1", "a Git LFS pointer");
  expect_gguf_refused("<!DOCTYPE html><html>", "a web page");
  expect_gguf_refused("GGML....", "not a GGUF file");
  expect_gguf_refused(with_version(1), "version 1 is not supported");
  expect_gguf_refused(with_version(0x03000000), "big-endian");
  expect_gguf_refused(with_version(4), "version 4 is not supported");
  expect_gguf_refused(GgufBuilder().u32("k", 1).u32("k", 2).build(), "'k' appears twice");
  expect_gguf_refused(GgufBuilder().raw("k", 13, "xxxxxxxx").build(), "value type 13");
  expect_gguf_refused(GgufBuilder().scalar<std::uint8_t>("k", 7, 2).build(), "neither 0 nor 1");
  std::string nested;
  GgufBuilder::put<std::uint32_t>(nested, 9);
  GgufBuilder::put<std::uint64_t>(nested, 1);
  expect_gguf_refused(GgufBuilder().raw("k", 9, nested + std::string(64, '\0')).build(), "array of arrays");
  expect_gguf_refused(GgufBuilder().u32("general.alignment", 48).build(), "power of two");
  expect_gguf_refused(GgufBuilder().u32("general.alignment", 0).build(), "power of two");
  const std::string four(4, 'x');
  expect_gguf_refused(GgufBuilder().tensor("t", {1}, 0, four).tensor("t", {1}, 0, four).build(),
                      "'t' appears twice");
  expect_gguf_refused(GgufBuilder().tensor("t", {1, 1, 1, 1, 1}, 0, four).build(), "5 dimensions");
  expect_gguf_refused(GgufBuilder().tensor("t", {1}, 4, four).build(), "type number 4");
  expect_gguf_refused(GgufBuilder().tensor("t", {1}, 99, four).build(), "type number 99");
  expect_gguf_refused(GgufBuilder().tensor("t", {0}, 0, four).build(), "dimension of 0");
  expect_gguf_refused(GgufBuilder().tensor("t", {33}, 2, four).build(),
                      "not a multiple of Q4_0's block of 32");
  const std::uint64_t huge = std::uint64_t{1} << 40;
  expect_gguf_refused(GgufBuilder().tensor("t", {huge, huge}, 0, four).build(), "more elements than can be");
  expect_gguf_refused(GgufBuilder().tensor("t", {2}, 0, four).build(), "past the end of the file");
  expect_gguf_refused(GgufBuilder().tensor_at("t", {1}, 0, ~std::uint64_t{31}, four).build(), "past the end");
  expect_gguf_refused(GgufBuilder().tensor("t", {1}, 0, four).tensor_at("u", {1}, 0, 0, "").build(),
                      "overlaps");
  expect_gguf_refused(GgufBuilder().tensor_at("t", {1}, 0, 4, four + four).build(),
                      "multiple of the alignment");
}

TEST(Gguf, RefusesCountsThatCannotBe) {
  std::string many = GgufBuilder().u32("k", 1).build();
  const std::uint64_t count = ~std::uint64_t{0};
  std::memcpy(many.data() + 16, &count, 8);
  expect_gguf_refused(many, "metadata entries");
  many = GgufBuilder().u32("k", 1).build();
  std::memcpy(many.data() + 8, &count, 8);
  expect_gguf_refused(many, "tensors, more than the file can hold");
  std::string array;
  GgufBuilder::put<std::uint32_t>(array, 8);
  GgufBuilder::put<std::uint64_t>(array, count / 2);
  expect_gguf_refused(GgufBuilder().raw("k", 9, array).build(), "ends inside the array 'k'");
}

TEST(Gguf, EveryTruncationIsRefused) {
  const std::string whole = GgufBuilder()
                                .string("name", "pagoda")
                                .strings("tokens", {"a", "bb"})
                                .tensor("t", {4}, 0, std::string(16, 'x'))
                                .build();
  ASSERT_EQ(gguf_error(whole), "opened");
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_NE(gguf_error(whole.substr(0, length)), "opened") << length;
  }
}

TEST(Gguf, MessagesAreOneLine) {
  const std::string message =
      gguf_error(GgufBuilder().u32("a\nb\x1b'\xFF", 1).u32("a\nb\x1b'\xFF", 1).build());
  EXPECT_EQ(message, "GGUF metadata 'a\\x0Ab\\x1B'\\xFF' appears twice");
}

}  // namespace
}  // namespace pagoda
