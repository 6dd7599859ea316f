// Goal: quantised weights have the names, shapes and values of the model that was quantised, whichever rows
// are asked for; and folders whose parts do not fit together are refused by the part's name. The folders and
// their values are made by tests/fixtures/make_quantized.py.
#include "loader/quantized_tensors.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "kernels/dequantize.h"
#include "loader/model_source.h"
#include "loader/quantized_parts.h"
#include "loader/test_files.h"
#include "tensor/small_floats.h"

namespace pagoda {
namespace {

using testing::kQuantizedFolders;
using testing::Parts;
using testing::read_binary;

class QuantizedFolder : public ::testing::TestWithParam<std::string> {};

TEST_P(QuantizedFolder, HasTheWeights) {
  const auto source = ModelSource::open(kQuantizedFolders + GetParam());
  ASSERT_TRUE(source) << source.error().message();
  const boost::json::value weights =
      boost::json::parse(read_binary(kQuantizedFolders + GetParam() + "/weights.json"));
  ASSERT_FALSE(weights.as_object().empty());
  for (const auto& [name, weight] : weights.as_object()) {
    SCOPED_TRACE(std::string(name));
    const TensorView* const tensor = (*source)->find(name);
    ASSERT_NE(tensor, nullptr);
    ASSERT_EQ(tensor->shape, boost::json::value_to<std::vector<std::int64_t>>(weight.at("shape")));
    const std::int64_t columns = tensor->columns(), row_bytes = dtype_bytes(tensor->dtype, columns);
    for (const boost::json::value& each : weight.at("values").as_array()) {
      const auto at = each.as_array()[0].to_number<std::int64_t>();
      const TensorView row = {tensor->dtype, {1, columns}, tensor->data + at / columns * row_bytes};
      ASSERT_TRUE((*source)->bring_in(row).ok());
      std::vector<float> values(static_cast<std::size_t>(columns));
      dequantize_row(row, 0, values.data());
      EXPECT_FLOAT_EQ(values[static_cast<std::size_t>(at % columns)], each.as_array()[1].to_number<float>())
          << "element " << at;
      (*source)->give_back(row);
    }
    // All of it at once has the same bits as rows of it.
    ThreadPool pool(2);
    ASSERT_TRUE((*source)->bring_in(*tensor, &pool).ok());
    const std::vector<std::byte> whole(tensor->data, tensor->data + tensor->bytes());
    (*source)->give_back(*tensor);
    for (std::int64_t row = 0; row < tensor->rows(); row += 13) {
      const TensorView part = {tensor->dtype, {1, columns}, tensor->data + row * row_bytes};
      ASSERT_TRUE((*source)->bring_in(part).ok());
      EXPECT_EQ(std::memcmp(part.data, whole.data() + row * row_bytes, static_cast<std::size_t>(row_bytes)),
                0);
      (*source)->give_back(part);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Fixtures, QuantizedFolder,
                         ::testing::ValuesIn(testing::folders_with(kQuantizedFolders, "weights.json")),
                         [](const auto& info) { return info.param; });

TEST(QuantizedTensors, KeepTheFilesNumbersWhereThereIsSuchAType) {
  const auto type = [](const std::string& name, const std::string& module = "up_proj") {
    const auto source = ModelSource::open(kQuantizedFolders + name);
    return source ? (*source)->find("model.layers.0.mlp." + module + ".weight")->dtype : DType::bf16;
  };
  for (const char* name : {"awq", "gptq", "gptq_v2", "w4a16", "w4a16_zero_points"})
    EXPECT_EQ(type(name), DType::int4) << name;
  for (const char* name : {"gptq_8bit", "w8a8", "bnb_int8"}) EXPECT_EQ(type(name), DType::int8) << name;
  EXPECT_EQ(type("mxfp4"), DType::mxfp4);
  for (const char* name : {"fp8_block", "fp8_tensor", "fp8_channel", "fp8_token", "modelopt_fp8"}) {
    EXPECT_EQ(type(name), DType::fp8) << name;
    EXPECT_EQ(type(name, "down_proj"), DType::fp8) << name;  // 160 columns: a block and a part of one
  }
  EXPECT_EQ(type("nf4"), DType::nf4);
  for (const char* name : {"nvfp4", "modelopt_nvfp4"}) {
    EXPECT_EQ(type(name), DType::nvfp4_scaled) << name;
    EXPECT_EQ(type(name, "down_proj"), DType::f32) << name;  // 160 columns: no whole blocks
  }
  EXPECT_EQ(type("gptq_act_order"), DType::f32);
  for (const char* name : {"mlx", "mlx_2bit", "mlx_3bit", "mlx_mixed"})
    EXPECT_EQ(type(name), DType::int4) << name;
  EXPECT_EQ(type("mlx_5bit"), DType::q5_1);
  for (const char* name : {"mlx_6bit", "mlx_8bit"}) EXPECT_EQ(type(name), DType::int8m) << name;
  EXPECT_EQ(type("mlx_mxfp4"), DType::mxfp4);
  EXPECT_EQ(type("mlx_nvfp4"), DType::nvfp4_scaled);
  EXPECT_EQ(type("mlx_mxfp8"), DType::f32);
}

TEST(QuantizedTensors, SayWhatTheyAreMultipliedWith) {
  const auto inputs = [](const std::string& name, bool quantize = true) {
    const auto source = ModelSource::open(kQuantizedFolders + name, {}, {.quantize_activations = quantize});
    TensorView rows = *(*source)->find("model.layers.0.mlp.up_proj.weight");
    rows.data += rows.bytes() / 2;  // in the middle
    return (*source)->inputs_of(rows);
  };
  EXPECT_EQ(inputs("w8a8"), (LinearArithmetic{.number = InputNumber::int8}));
  EXPECT_EQ(inputs("w8a8", false), LinearArithmetic{});
  EXPECT_EQ(inputs("w8a8_static"),
            (LinearArithmetic{.number = InputNumber::int8, .scales = InputScale::fixed, .scale = 0.03125f}));
  EXPECT_EQ(inputs("fp8_token"), (LinearArithmetic{.number = InputNumber::e4m3}));
  EXPECT_EQ(inputs("fp8_block"),
            (LinearArithmetic{.number = InputNumber::e4m3, .scales = InputScale::group, .group = 128}));
  const LinearArithmetic half = {.number = InputNumber::e4m3, .scales = InputScale::fixed, .scale = 0.5f};
  EXPECT_EQ(inputs("fp8_tensor"), half);
  EXPECT_EQ(inputs("modelopt_fp8"), half);
  for (const char* name : {"fp8_channel", "awq", "gptq", "nvfp4", "nf4", "bnb_int8"})
    EXPECT_TRUE(inputs(name).is_own()) << name;
}

constexpr const char* kFp8 = R"({"quant_method":"fp8","weight_block_size":[2,2]})";
constexpr const char* kGptq = R"({"quant_method":"gptq","group_size":8})";
constexpr const char* kAwq = R"({"quant_method":"awq","group_size":8})";
constexpr const char* kPacked =
    R"({"quant_method":"compressed-tensors","config_groups":{"g":{"weights":{"num_bits":4,"group_size":8}}}})";
constexpr const char* kNvfp4 = R"({"quant_method":"modelopt","quant_algo":"NVFP4"})";
const float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(QuantizedTensors, OfStackedExpertsHaveScalesOfTheirOwn) {
  // e4m3: 0x38 is 1, 0x40 is 2. Two experts of 3 x 3 in blocks of 2 x 2.
  Parts parts;
  parts.add("w.weight", "F8_E4M3", "[2,3,3]",
            "\x38\x38\x38\x38\x38\x38\x38\x38\x40\x38\x38\x38\x38\x38\x38\x38\x38\x40");
  parts.floats("w.weight_scale_inv", "[2,2,2]", {1, 2, 3, 4, 5, 6, 7, 8});
  const auto source = parts.open(kFp8);
  ASSERT_TRUE(source) << source.error().message();
  const TensorView weight = *(*source)->find("w.weight");
  ASSERT_TRUE((*source)->bring_in(weight).ok());
  std::vector<float> values(18);
  dequantize(weight.dtype, weight.data, 18, values.data());
  EXPECT_EQ(values, (std::vector<float>{1, 1, 2, 1, 1, 2, 3, 3, 8, 5, 5, 6, 5, 5, 6, 7, 7, 16}));
}

// Two experts of 32 x 64, as their file has them where 32 rows share a scale, else as values.
TEST(QuantizedTensors, OfStackedExpertsStayWhatTheyAreWhereRowsShareScales) {
  const std::string tensor = R"({"quant_method":"modelopt","quant_algo":"FP8"})",
                    block = R"({"quant_method":"fp8","weight_block_size":[32,128]})",
                    small = R"({"quant_method":"fp8","weight_block_size":[16,128]})",
                    channel = R"({"quant_method":"modelopt","quant_algo":"FP8_PER_CHANNEL_PER_TOKEN"})";
  const auto expect = [](const std::string& how, const std::string& scale, const std::string& shape,
                         std::int64_t count, DType wanted, auto scale_of) {
    SCOPED_TRACE(shape);
    std::string codes(2 * 32 * 64, '\0');
    for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<char>(i % 7 + 8 * (i % 11));
    std::vector<float> scales;
    for (std::int64_t i = 0; i < count; ++i) scales.push_back(0.25f * static_cast<float>(1 + i % 9));
    Parts parts;
    parts.add("experts.up_proj", "F8_E4M3", "[2,32,64]", codes);
    parts.floats(scale, shape, scales);
    const auto source = parts.open(how);
    ASSERT_TRUE(source) << source.error().message();
    const TensorView weight = *(*source)->find("experts.up_proj");
    EXPECT_EQ(weight.dtype, wanted);
    ASSERT_TRUE((*source)->bring_in(weight).ok());
    std::vector<float> values(codes.size()), expected(codes.size());
    dequantize(weight.dtype, weight.data, std::ssize(values), values.data());
    for (std::size_t i = 0; i < codes.size(); ++i)
      expected[i] = e4m3_value(static_cast<std::uint8_t>(codes[i])) *
                    scales[static_cast<std::size_t>(scale_of(static_cast<std::int64_t>(i) / 2048,
                                                             static_cast<std::int64_t>(i) / 64 % 32,
                                                             static_cast<std::int64_t>(i) % 64))];
    EXPECT_EQ(values, expected);
  };
  const auto of_expert = [](auto expert, auto, auto) { return expert; };
  expect(tensor, "experts.up_proj_weight_scale", "[1]", 1, DType::fp8, [](auto, auto, auto) { return 0; });
  expect(tensor, "experts.up_proj_scale", "[2]", 2, DType::fp8, of_expert);
  expect(block, "experts.up_proj_scale_inv", "[2,1,1]", 2, DType::fp8, of_expert);
  expect(small, "experts.up_proj_scale_inv", "[2,2,1]", 4, DType::f32,
         [](auto expert, auto row, auto) { return 2 * expert + row / 16; });
  expect(channel, "experts.up_proj_scale", "[2,32,1]", 64, DType::f32,
         [](auto expert, auto row, auto) { return 32 * expert + row; });
  expect(channel, "experts.up_proj_scale", "[2,1,64]", 128, DType::f32,
         [](auto expert, auto, auto column) { return 64 * expert + column; });
}

TEST(QuantizedTensors, ThatAreDamagedAreRefused) {
  const auto expect = [](const std::string& got, std::string_view why) {
    EXPECT_NE(got.find(why), std::string::npos) << got << " instead of " << why;
  };
  const std::string four(4, '\x38'), bytes(32, '\x11'), word(4, '\0');
  expect(Parts().add("w.weight", "F8_E4M3", "[2,2]", four).refused(kFp8),
         "tensor 'w.weight_scale' is missing");
  expect(Parts()
             .add("w.weight", "F8_E4M3", "[2,2]", four)
             .floats("w.weight_scale_inv", "[3,1]", {1, 1, 1})
             .refused(kFp8),
         "which does not fit to weights of [2, 2]");
  expect(Parts()
             .add("w.weight", "F8_E4M3", "[2,2]", four)
             .floats("w.weight_scale_inv", "[1,1]", {kNan})
             .refused(kFp8),
         "tensor 'w.weight_scale_inv' has a scale that is not a number, at 0");
  expect(Parts()
             .add("w.weight", "F8_E4M3", "[2,2]", "\x38\x7f\x38\x38")
             .floats("w.weight_scale_inv", "[1,1]", {1})
             .refused(kFp8),
         "tensor 'w.weight' has a weight that is not a number");
  expect(Parts()
             .add("w.weight", "F8_E4M3", "[2,2]", four)
             .add("w.weight_scale", "I32", "[1]", word)
             .refused(kFp8),
         "tensor 'w.weight_scale' has dtype I32, which no scale has");

  const auto gptq = [&](const std::string& index, const std::vector<float>& scales,
                        const std::string& shape) {
    Parts parts;  // 8 rows of 8 columns
    parts.add("w.qweight", "I32", "[1,8]", bytes)
        .add("w.qzeros", "I32", "[1,1]", word)
        .floats("w.scales", shape, scales);
    if (!index.empty()) parts.add("w.g_idx", "I32", "[8]", index);
    return parts.refused(kGptq);
  };
  const std::vector<float> ones(8, 1.0f);
  expect(gptq("", ones, "[1,8]"), "");
  expect(gptq(std::string(28, '\0') + "\x01" + std::string(3, '\0'), ones, "[1,8]"),
         "tensor 'w.g_idx' names group 1 of 1");
  expect(gptq(std::string(28, '\0') + std::string(4, '\xff'), ones, "[1,8]"), "names group -1 of 1");
  expect(gptq("", std::vector<float>(4, 1.0f), "[1,4]"), "tensor 'w.qweight' has shape [1, 8]");
  expect(gptq("", std::vector<float>{1, 1, 1, 1, kNan, 1, 1, 1}, "[1,8]"),
         "has a scale that is not a number, at 4");
  expect(Parts().add("w.qweight", "I32", "[1,8]", bytes).refused(kGptq), "tensor 'w.qzeros' is missing");

  // Parts that the scheme says there are.
  const std::string ordered = R"({"quant_method":"gptq","group_size":8,"desc_act":true})";
  expect(Parts()
             .add("w.qweight", "I32", "[2,8]", bytes + bytes)
             .add("w.qzeros", "I32", "[2,1]", word + word)
             .floats("w.scales", "[2,8]", std::vector<float>(16, 1.0f))
             .refused(ordered),
         "tensor 'w.g_idx' is missing, which GPTQ (int4 in groups of 8, activation order) needs");
  const std::string asymmetric = R"({"quant_method":"compressed-tensors","config_groups":{"g":{"weights":
      {"num_bits":4,"group_size":8,"symmetric":false}}}})";
  expect(
      Parts()
          .add("w.weight_packed", "I32", "[8,1]", bytes)
          .add("w.weight_shape", "I32", "[2]", std::string("\x08\0\0\0\x08\0\0\0", 8))
          .floats("w.weight_scale", "[8,1]", ones)
          .refused(asymmetric),
      "tensor 'w.weight_zero_point' is missing, which compressed-tensors (int4 in groups of 8, zero points) "
      "needs");

  // 2 groups of 16 columns where 8 are said.
  expect(Parts()
             .add("w.qweight", "I32", "[32,1]", std::string(128, '\x11'))
             .add("w.qzeros", "I32", "[2,1]", word + word)
             .floats("w.scales", "[2,8]", std::vector<float>(16, 1.0f))
             .refused(kAwq),
         "has 2 groups of 32 columns, which are not those of AWQ (int4 in groups of 8, zero points)");
  expect(Parts()
             .add("w.qweight", "I32", "[8,1]", bytes)
             .add("w.qzeros", "I32", "[1,2]", word + word)
             .floats("w.scales", "[1,8]", ones)
             .refused(kAwq),
         "tensor 'w.qweight' has shape [8, 1]");

  const auto packed = [&](const std::string& shape) {
    return Parts()
        .add("w.weight_packed", "I32", "[8,1]", bytes)
        .add("w.weight_shape", "I32", "[2]", shape)
        .floats("w.weight_scale", "[8,1]", ones)
        .refused(kPacked);
  };
  expect(packed(std::string("\x08\0\0\0\x08\0\0\0", 8)), "");
  expect(packed(std::string("\x08\0\0\0\x09\0\0\0", 8)), "where w.weight_shape says [8, 9]");
  expect(packed(std::string("\x07\0\0\0\x08\0\0\0", 8)), "where w.weight_shape says [7, 8]");

  const auto nvfp4 = [&](const std::string& scales, std::size_t count, float whole) {
    return Parts()
        .add("w.weight", "U8", "[2,8]", std::string(16, '\x22'))
        .add("w.weight_scale", "F8_E4M3", scales, std::string(count, '\x38'))
        .floats("w.weight_scale_2", "[]", {whole})
        .refused(kNvfp4);
  };
  expect(nvfp4("[2,1]", 2, 1), "");
  expect(nvfp4("[1,2]", 2, 1),
         "tensor 'w.weight_scale' has shape [1, 2], which does not fit to weights of [2, 16]");
  expect(nvfp4("[2,1]", 2, kNan), "tensor 'w.weight_scale_2' has a scale that is not a number");

  // Another number than the one that is said, and methods that tensors alone do not tell.
  expect(Parts().add("w.weight", "I8", "[2,2]", four).floats("w.weight_scale", "[2,1]", {1, 1}).refused(kFp8),
         "is not stored as quantization_config says: FP8");
  expect(Parts().add("w.qweight", "I32", "[1,8]", bytes).refused("{}"),
         "tensor 'w.qweight' is quantised by GPTQ or AWQ, and config.json has no quantization_config");
}

// Tensors that packages leave beside weights and that say nothing.
TEST(QuantizedTensors, MayHavePartsThatSayNothing) {
  const std::string bytes(32, '\x11'), shape("\x08\0\0\0\x08\0\0\0", 8);
  const std::vector<float> ones(8, 1.0f);
  const auto packed = [&](const std::string& indices) {
    return Parts()
        .add("w.weight_packed", "I32", "[8,1]", bytes)
        .add("w.weight_shape", "I32", "[2]", shape)
        .floats("w.weight_scale", "[8,1]", ones)
        .add("w.weight_g_idx", "I32", "[8]", indices)
        .refused(kPacked);
  };
  EXPECT_EQ(packed(std::string(32, '\xff')), "");
  EXPECT_NE(packed(std::string(28, '\0') + std::string(4, '\xff')), "");
  // Zero points of 8-bit floats.
  const auto float8 = [](char zero) {
    return Parts()
        .add("w.weight", "F8_E4M3", "[2,2]", std::string(4, '\x38'))
        .floats("w.weight_scale", "[1]", {1})
        .add("w.weight_zero_point", "F8_E4M3", "[1]", std::string(1, zero))
        .add("w.input_zero_point", "F8_E4M3", "[1]", std::string(1, '\0'))
        .refused(R"({"quant_method":"fp8"})");
  };
  EXPECT_EQ(float8('\0'), "");
  EXPECT_NE(float8('\x38'), "");
  // Symmetric integers and inputs may have them, too.
  static constexpr const char* kInt8 =
      R"({"quant_method":"compressed-tensors","config_groups":{"g":{"weights":
      {"num_bits":8,"strategy":"channel"}}}})";
  const auto int8 = [&](char zero) {
    Parts parts;
    parts.add("w.weight", "I8", "[1,32]", bytes)
        .floats("w.weight_scale", "[1,1]", {1})
        .add("w.weight_zero_point", "I8", "[1,1]", std::string(1, zero))
        .add("w.input_zero_point", "I8", "[1]", std::string(1, '\x03'));
    const auto source = parts.open(kInt8);
    return source ? (*source)->find("w.weight")->dtype : DType::bf16;
  };
  EXPECT_EQ(int8('\0'), DType::int8);
  EXPECT_EQ(int8('\x01'), DType::int8m);
}

// Without hf_quant_config.json: the tensors say enough.
TEST(QuantizedTensors, OfModeloptsNvfp4SayItThemselves) {
  const auto source = Parts()
                          .add("w.weight", "U8", "[2,32]", std::string(64, '\x22'))
                          .add("w.weight_scale", "F8_E4M3", "[2,4]", std::string(8, '\x38'))
                          .floats("w.weight_scale_2", "[]", {1})
                          .open("{}");
  ASSERT_TRUE(source) << source.error().message();
  EXPECT_EQ((*source)->find("w.weight")->dtype, DType::nvfp4_scaled);
}

TEST(QuantizedTensors, WithoutTheirNumbersAreMissed) {
  EXPECT_NE(Parts()
                .add("w.qzeros", "I32", "[1,1]", std::string(4, '\0'))
                .floats("w.scales", "[1,8]", std::vector<float>(8, 1.0f))
                .refused(kGptq)
                .find("tensor 'w.qzeros' of dtype I32 belongs to a quantised weight that is not there"),
            std::string::npos);
}

TEST(QuantizedTensors, ThatNeedFactorsOfActivationsAreRefused) {
  for (const char* name : {"w.pre_quant_scale", "w.act.scales"}) {
    const std::string why = Parts()
                                .add("w.weight", "F8_E4M3", "[2,2]", std::string(4, '\x38'))
                                .floats("w.weight_scale", "[]", {1})
                                .floats(name, "[2]", {1, 1})
                                .refused(R"({"quant_method":"modelopt","quant_algo":"FP8"})");
    EXPECT_NE(why.find(std::string("modelopt with factors of activations ('") + name +
                       "') are not supported; supported: "),
              std::string::npos)
        << why;
  }
}

// bnb_4bit_quant_storage: the same bytes as another type.
TEST(QuantizedTensors, OfBitsandbytesMayLieInOtherTypes) {
  for (const auto& [type, shape] : {std::pair{"BF16", "[16,1]"}, {"F16", "[16,1]"}, {"F32", "[8,1]"}}) {
    const std::string state = R"({"blocksize":64,"shape":[4,16]})";
    const std::string why =
        Parts()
            .add("w.weight", type, shape, std::string(32, '\x12'))
            .add("w.weight.quant_state.bitsandbytes__nf4", "U8", "[" + std::to_string(state.size()) + "]",
                 state)
            .floats("w.weight.quant_map", "[16]", std::vector<float>(16, 0.5f))
            .floats("w.weight.absmax", "[1]", {1})
            .refused(
                R"({"quant_method":"bitsandbytes","load_in_4bit":true,"bnb_4bit_quant_storage":"bfloat16"})");
    EXPECT_EQ(why, "") << type;
  }
}

TEST(QuantizedTensors, OfBitsandbytesAreDescribedByTheFile) {
  const auto refused = [](const std::string& state, const std::string& magnitudes) {
    Parts parts;
    parts.add("w.weight", "U8", "[32,1]", std::string(32, '\x12'))
        .add("w.weight.quant_state.bitsandbytes__nf4", "U8", "[" + std::to_string(state.size()) + "]", state)
        .floats("w.weight.quant_map", "[16]", std::vector<float>(16, 0.5f))
        .add("w.weight.absmax", "F32", "[" + std::to_string(magnitudes.size() / 4) + "]", magnitudes);
    return parts.refused("{}");
  };
  const std::string one = std::string("\0\0\x80\x3f", 4);
  EXPECT_EQ(refused(R"({"blocksize":64,"shape":[4,16]})", one), "");
  for (const char* state :
       {"", "[]", R"({"shape":[4,16]})", R"({"blocksize":64})", R"({"blocksize":64,"shape":[4,17]})",
        R"({"blocksize":64,"shape":[4611686018427387904,4]})", R"({"blocksize":32,"shape":[4,16]})"})
    EXPECT_NE(refused(state, one), "") << state;
  EXPECT_NE(refused(R"({"blocksize":64,"shape":[4,16]})", one + one), "");
  EXPECT_NE(refused(R"({"blocksize":64,"shape":[4,16]})", std::string("\0\0\xc0\x7f", 4)), "");
}

}  // namespace
}  // namespace pagoda
