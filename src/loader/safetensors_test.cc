#include "loader/safetensors.h"

#include <gtest/gtest.h>

#include "loader/test_files.h"
#include "loader/test_gguf.h"

namespace pagoda {
namespace {

using testing::as_bytes;
using testing::safetensors;

std::string safetensors_error(const std::string& bytes) {
  const Result<SafetensorsFile> file = SafetensorsFile::parse(as_bytes(bytes));
  return file ? "opened" : file.error().message();
}
void expect_header_refused(std::string_view header, std::string_view why) {
  const std::string message = safetensors_error(safetensors(header, "12345678"));
  EXPECT_NE(message.find(why), std::string::npos) << header << " gives: " << message;
}

TEST(Safetensors, ReadsTensorsAndMetadata) {
  const std::string bytes = safetensors(
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2,1],"data_offsets":[4,8]},)"
      R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"empty":{"dtype":"F16","shape":[0,7],"data_offsets":[8,8]}}   )",
      "aaaabbbb");
  const Result<SafetensorsFile> file = SafetensorsFile::parse(as_bytes(bytes));
  ASSERT_TRUE(file) << file.error().message();
  EXPECT_EQ(file->metadata().at("format"), "pt");
  ASSERT_EQ(file->tensors().size(), 3u);
  const TensorView& b = file->tensors().at("b");
  EXPECT_EQ(b.dtype, DType::bf16);
  EXPECT_EQ(b.shape, (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(b.data[0], std::byte{'b'});
  EXPECT_EQ(file->tensors().at("a").elements(), 1);
  EXPECT_EQ(file->tensors().at("empty").bytes(), 0);
  EXPECT_TRUE(file->check_supported().ok());
}

TEST(Safetensors, NamesTypesThatAreNotRun) {
  const auto supported = [](std::string_view type) {
    const std::string bytes = safetensors(
        std::string(R"({"x.y":{"dtype":")") + std::string(type) + R"(","shape":[1],"data_offsets":[0,8]}})",
        "12345678");
    const Result<SafetensorsFile> file = SafetensorsFile::parse(as_bytes(bytes));
    return file ? file->check_supported() : file.error();
  };
  EXPECT_TRUE(supported("I64").ok());
  EXPECT_EQ(supported("F64").message(),
            "tensor 'x.y' has dtype F64, which is not supported; supported: F32, F16, BF16");
  EXPECT_NE(supported("F99").message().find("unknown dtype 'F99'"), std::string::npos);
}

TEST(Safetensors, RefusesWhatTheFormatDoesNotDefine) {
  const auto tensor = [](std::string_view fields) { return "{\"t\":{" + std::string(fields) + "}}"; };
  const std::string good = R"("dtype":"F32","shape":[2],"data_offsets":[0,8])";
  EXPECT_EQ(safetensors_error(safetensors(tensor(good), "12345678")), "opened");
  expect_header_refused(tensor(R"("dtype":"F32","shape":[2])"), "lacks");
  expect_header_refused(tensor(good + R"(,"extra":1)"), "field 'extra'");
  expect_header_refused(tensor(good + R"(,"shape":[2])"), "two shapes");
  expect_header_refused(tensor(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"), "its shape needs 12");
  expect_header_refused(tensor(R"("dtype":"F32","shape":[2],"data_offsets":[4,12])"), "gap or overlaps");
  expect_header_refused(tensor(R"("dtype":"F32","shape":[3],"data_offsets":[0,12])"), "past the end");
  expect_header_refused(tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])"),
                        "4 bytes after its last");
  expect_header_refused(tensor(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"), "gap or overlaps");
  expect_header_refused(tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0])"), "two data_offsets");
  expect_header_refused(tensor(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"), "number where none");
  expect_header_refused(tensor(R"("dtype":"F32","shape":[2.0],"data_offsets":[0,8])"), "not an integer");
  expect_header_refused(tensor(R"("dtype":"F32","shape":[[2]],"data_offsets":[0,8])"), "array where none");
  expect_header_refused(tensor(R"("dtype":5,"shape":[2],"data_offsets":[0,8])"), "number where none");
  expect_header_refused(tensor(R"("dtype":"F32","shape":[36028797018963968,8],"data_offsets":[0,8])"),
                        "cannot be");
  expect_header_refused(
      tensor(R"("dtype":"F32","shape":[4294967296,4294967296,4294967296],"data_offsets":[0,8])"),
      "cannot be");
  expect_header_refused(tensor(R"("dtype":"F4","shape":[3],"data_offsets":[0,2])"), "cannot be");
  expect_header_refused("{" + tensor(good).substr(1, good.size() + 6) + "," + tensor(good).substr(1),
                        "'t' appears twice");
  expect_header_refused(R"({"__metadata__":{"a":1}})", "number where none");
  expect_header_refused(R"({"__metadata__":{"a":{}}})", "nested too deep");
  expect_header_refused(R"({"t":[]})", "array where none");
  expect_header_refused(R"({"t":{}})", "lacks");
  expect_header_refused(R"({} {})", "JSON");
  expect_header_refused("{", "JSON");
  expect_header_refused("[]", "not a JSON object");
  expect_header_refused("{\"\xFF\":{}}", "JSON");
}

TEST(Safetensors, RefusesLengthsThatCannotBe) {
  EXPECT_NE(safetensors_error("").find("empty"), std::string::npos);
  EXPECT_NE(safetensors_error("abc").find("too short"), std::string::npos);
  EXPECT_NE(safetensors_error(std::string(8, '\xFF')).find("a header of 18446744073709551615"),
            std::string::npos);
  const std::string whole =
      safetensors(R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "12345678");
  ASSERT_EQ(safetensors_error(whole), "opened");
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_NE(safetensors_error(whole.substr(0, length)), "opened") << length;
  }
}

}  // namespace
}  // namespace pagoda
