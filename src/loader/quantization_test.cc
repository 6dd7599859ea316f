// Goal: every method's configuration becomes one description, and what it does not cover is refused by name.
#include "loader/quantization.h"

#include <gtest/gtest.h>

#include <map>

namespace pagoda {
namespace {

// A folder's files beside config.json.
SideFile beside(std::map<std::string, std::string, std::less<>> files = {}) {
  return [files = std::move(files)](std::string_view name) -> std::optional<std::string> {
    const auto found = files.find(name);
    return found == files.end() ? std::nullopt : std::optional(found->second);
  };
}

Result<Quantization> read(const std::string& how) {
  return read_quantization_files(R"({"quantization_config":)" + how + "}", {});
}

std::string text_of(const std::string& how) {
  const auto quantization = read(how);
  return quantization ? quantization->text() : quantization.error().message();
}

TEST(Quantization, IsReadAsMethodsWriteIt) {
  EXPECT_EQ(text_of("{}"), "");
  EXPECT_EQ(text_of(R"({"quant_method":"none"})"), "");
  // DeepSeek V3, Ministral 3, Qwen3-FP8.
  EXPECT_EQ(
      text_of(
          R"({"activation_scheme":"dynamic","fmt":"e4m3","quant_method":"fp8","weight_block_size":[128,128]})"),
      "FP8 (e4m3 in blocks of 128x128)");
  EXPECT_EQ(text_of(R"({"activation_scheme":"static","dequantize":false,"modules_to_not_convert":["lm_head"],
                        "quant_method":"fp8","weight_block_size":null})"),
            "FP8 (e4m3 by tensor)");
  EXPECT_EQ(text_of(R"({"bits":4,"group_size":128,"modules_to_not_convert":null,"quant_method":"awq",
                        "version":"gemm","zero_point":true})"),
            "AWQ (int4 in groups of 128, zero points)");
  EXPECT_EQ(text_of(R"({"bits":4,"damp_percent":0.01,"desc_act":true,"group_size":-1,"quant_method":"gptq",
                        "sym":false,"true_sequential":true})"),
            "GPTQ (int4 by channel, zero points, activation order)");
  EXPECT_EQ(text_of(R"({"bits":8,"group_size":32,"quant_method":"gptq","sym":true})"),
            "GPTQ (int8 in groups of 32)");
  EXPECT_EQ(text_of(R"({"quant_method":"mxfp4","modules_to_not_convert":["lm_head"]})"), "MXFP4");
  // Falcon-E and Falcon3-1.58bit; BitNet b1.58 2B-4T.
  EXPECT_EQ(text_of(R"({"modules_to_not_convert":["lm_head"],"quant_method":"bitnet"})"), "BitNet");
  EXPECT_TRUE(read(R"({"quant_method":"bitnet"})")->inverse_scales);
  EXPECT_FALSE(
      read(R"({"linear_class":"autobitlinear","quant_method":"bitnet","quantization_mode":"offline"})")
          ->inverse_scales);
  EXPECT_EQ(text_of(R"({"_load_in_4bit":true,"load_in_4bit":true,"bnb_4bit_quant_type":"nf4",
                        "quant_method":"bitsandbytes"})"),
            "bitsandbytes (NF4)");
  EXPECT_EQ(text_of(R"({"load_in_8bit":true,"load_in_4bit":false,"quant_method":"bitsandbytes"})"),
            "bitsandbytes (int8 by channel)");
  EXPECT_EQ(text_of(R"({"quant_method":"modelopt","quant_algo":"NVFP4","ignore":["lm_head"]})"),
            "modelopt (NVFP4)");
}

TEST(Quantization, OfCompressedTensorsHasGroups) {
  const std::string weights =
      R"("weights":{"num_bits":8,"type":"int","strategy":"channel","symmetric":true})";
  const auto made =
      read(R"({"quant_method":"compressed-tensors","format":"int-quantized","ignore":["lm_head","re:.*gate$"],
    "kv_cache_scheme":{"num_bits":8},"config_groups":{"group_0":{"targets":["Linear"],)" +
           weights +
           R"(,"input_activations":{"num_bits":8,"dynamic":true,"strategy":"token"}},
    "group_1":{"targets":["re:.*down_proj"],"weights":{"num_bits":4,"group_size":64,"symmetric":false}}}})");
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_EQ(made->text(), "compressed-tensors (int8 by channel)");
  ASSERT_EQ(made->schemes.size(), 2u);
  EXPECT_EQ(made->schemes[0].activations, (LinearArithmetic{.number = InputNumber::int8}));
  EXPECT_EQ(made->schemes[1], (WeightScheme{.number = QuantizedNumber::int4,
                                            .scales = ScaleShape::group,
                                            .group_size = 64,
                                            .zero_points = true}));
}

// Fields that are not given follow from others, as compressed-tensors' own validation has them.
TEST(Quantization, OfCompressedTensorsHasDefaults) {
  const auto weights = [](const std::string& more) {
    return text_of(
        R"({"quant_method":"compressed-tensors","sparsity_config":{"format":"dense"},"config_groups":
        {"g":{"targets":["Linear"],"weights":{"type":"int",)" +
        more + "}}}}");
  };
  EXPECT_EQ(weights(R"("num_bits":8)"), "compressed-tensors (int8 by tensor)");
  EXPECT_EQ(weights(R"("num_bits":8,"group_size":-1)"), "compressed-tensors (int8 by channel)");
  EXPECT_EQ(weights(R"("num_bits":4,"group_size":64)"), "compressed-tensors (int4 in groups of 64)");
  EXPECT_EQ(weights(R"("num_bits":4,"group_size":128,"strategy":"group","actorder":"weight")"),
            "compressed-tensors (int4 in groups of 128)");
  EXPECT_EQ(weights(R"("num_bits":4,"group_size":128,"actorder":true)"),
            "compressed-tensors (int4 in groups of 128, activation order)");
}

TEST(Quantization, OfGptqHasOverrides) {
  const auto made = read(R"({"quant_method":"gptq","bits":4,"group_size":128,"checkpoint_format":"gptq",
    "dynamic":{"-:.*lm_head":{},"+:.*down":{"bits":8,"group_size":32},".*up":{"sym":false}}})");
  ASSERT_TRUE(made) << made.error().message();
  ASSERT_EQ(made->schemes.size(), 3u);
  EXPECT_EQ(made->schemes[1].number, QuantizedNumber::int8);
  EXPECT_EQ(made->schemes[1].group_size, 32);
  EXPECT_TRUE(made->schemes[2].zero_points);
  EXPECT_TRUE(made->zeros_less_one);
  EXPECT_FALSE(read(R"({"quant_method":"gptq","checkpoint_format":"gptq_v2"})")->zeros_less_one);
}

TEST(Quantization, OfMlxHasModules) {
  const auto made = read_quantization_files(
      R"({"quantization":{"group_size":64,"bits":4,"mode":"affine","model.embed_tokens":{"group_size":32,"bits":8},
          "lm_head":{"group_size":64,"bits":4},"model.layers.0.mlp.gate":false,
          "model.layers.1.mlp.down_proj":{"group_size":32,"bits":4,"mode":"mxfp4"},
          "model.layers.2.mlp.down_proj":{"mode":"nvfp4"}},
          "quantization_config":{"quant_method":"mxfp4"}})",
      beside());
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_EQ(made->text(), "MLX (int4 in groups of 64)");
  ASSERT_EQ(made->schemes.size(), 4u);
  EXPECT_EQ(made->schemes[1], (WeightScheme{.number = QuantizedNumber::int8, .group_size = 32}));
  EXPECT_EQ(made->schemes[3], (WeightScheme{.number = QuantizedNumber::nvfp4, .group_size = 16}));
  EXPECT_EQ(made->modules.at("lm_head"), 0u);
  EXPECT_EQ(made->modules.at("model.layers.1.mlp.down_proj"), 2u);
  EXPECT_FALSE(made->modules.contains("model.layers.0.mlp.gate"));
  // The twin alone; modes of floats.
  EXPECT_EQ(text_of(R"({"group_size":128,"bits":3})"), "MLX (int3 in groups of 128)");
  EXPECT_EQ(text_of(R"({"group_size":32,"bits":8,"mode":"mxfp8"})"), "MLX (MXFP8)");
  EXPECT_EQ(text_of(R"({"group_size":16,"bits":4,"mode":"nvfp4"})"), "MLX (NVFP4)");
}

TEST(Quantization, OfAutoRoundIsThatOfItsLayout) {
  const auto made = [](const std::string& more) {
    return read(R"({"quant_method":"auto-round","bits":4,"group_size":64,"sym":false,"data_type":"int")" +
                more + "}");
  };
  const auto gptq = made(
      R"(,"packing_format":"auto_round:auto_gptq","extra_config":{"a":{"bits":8},"b":{"bits":16,"data_type":"float"}})");
  ASSERT_TRUE(gptq) << gptq.error().message();
  EXPECT_EQ(gptq->text(), "GPTQ (int4 in groups of 64, zero points)");
  EXPECT_TRUE(gptq->zeros_less_one);
  EXPECT_TRUE(gptq->says(QuantizedNumber::int8));
  EXPECT_FALSE(made(R"(,"packing_format":"auto_round")")->zeros_less_one);
  EXPECT_EQ(made(R"(,"packing_format":"auto_round:auto_awq")")->method, QuantizationMethod::awq);
  EXPECT_FALSE(made(R"(,"packing_format":"auto_round:fp8_static")"));
}

TEST(Quantization, NamesTheArithmeticOfActivations) {
  const auto inputs = [](const std::string& how) {
    const auto made = read(how);
    if (!made) return made.error().message();
    std::string text = linear_arithmetic_text(made->schemes.front().activations);
    if (made->schemes.front().activations.largest > 0) text += ", bounded";
    return text;
  };
  EXPECT_EQ(inputs(R"({"quant_method":"fp8"})"), "e4m3 by token");
  EXPECT_EQ(inputs(R"({"quant_method":"fp8","weight_block_size":[128,128]})"), "e4m3 in groups of 128");
  EXPECT_EQ(inputs(R"({"quant_method":"fp8","activation_scheme":"static"})"), "e4m3 with fixed scales");
  EXPECT_EQ(inputs(R"({"quant_method":"fbgemm_fp8","activation_scale_ub":1200.0})"),
            "e4m3 by token, bounded");
  EXPECT_EQ(inputs(R"({"quant_method":"modelopt","quant_algo":"FP8"})"), "e4m3 with fixed scales");
  EXPECT_EQ(inputs(R"({"quant_method":"modelopt","quant_algo":"FP8_PER_CHANNEL_PER_TOKEN"})"),
            "e4m3 by token");
  EXPECT_EQ(inputs(R"({"quant_method":"modelopt","quant_algo":"FP8_PB_WO"})"), "");
  EXPECT_EQ(inputs(R"({"quant_method":"modelopt","quant_algo":"NVFP4"})"), "");
  EXPECT_EQ(inputs(R"({"quant_method":"awq"})"), "");
  const auto compressed = [&](const std::string& activations) {
    return inputs(R"({"quant_method":"compressed-tensors","config_groups":{"g":{"weights":{"num_bits":8,
        "type":"int","strategy":"channel"},"input_activations":)" +
                  activations + "}}}");
  };
  EXPECT_EQ(compressed("null"), "");
  EXPECT_EQ(compressed(R"({"num_bits":8,"type":"int","strategy":"token","dynamic":true})"), "int8 by token");
  EXPECT_EQ(compressed(R"({"num_bits":8,"type":"int","strategy":"tensor","dynamic":false})"),
            "int8 with fixed scales");
  EXPECT_EQ(compressed(R"({"num_bits":8,"type":"int","strategy":"token","dynamic":true,"symmetric":false})"),
            "");
  EXPECT_EQ(compressed(R"({"num_bits":4,"type":"float","strategy":"tensor_group","dynamic":"local"})"), "");
  EXPECT_EQ(compressed(R"({"num_bits":8,"type":"float","strategy":"token","dynamic":true})"),
            "e4m3 by token");
  EXPECT_EQ(compressed(R"({"num_bits":8,"type":"float","strategy":"group","group_size":128,"dynamic":true})"),
            "e4m3 in groups of 128");
}

TEST(Quantization, StandsInOtherPlaces) {
  const auto of = [](std::string_view config, const SideFile& files = {}) {
    const auto made = read_quantization_files(config, files);
    return made ? made->text() : made.error().message();
  };
  EXPECT_EQ(of(R"({"text_config":{"quantization_config":{"quant_method":"fp8"}}})"), "FP8 (e4m3 by tensor)");
  EXPECT_EQ(
      of(R"({"compression_config":{"config_groups":{"g":{"weights":{"num_bits":8,"type":"float","strategy":"channel"}}}}})"),
      "compressed-tensors (e4m3 by channel)");
  // One deeper, as the first versions wrote it; and beside an older name of the same.
  EXPECT_EQ(of(R"({"compression_config":{"sparsity_config":{"format":"dense"},"quantization_config":
      {"quant_method":"compressed-tensors","format":"pack-quantized",
       "config_groups":{"g":{"weights":{"num_bits":4,"group_size":128}}}}}})"),
            "compressed-tensors (int4 in groups of 128)");
  EXPECT_EQ(
      of(R"({"quantization_config":{"quant_method":"awq"},"compression_config":{"quant_method":"fp8"}})"),
      "AWQ (int4 in groups of 128, zero points)");
  EXPECT_EQ(of(R"({"quantization_config":{},"compression_config":{"quant_method":"fp8"}})"),
            "FP8 (e4m3 by tensor)");
  const std::string mixed =
      R"({"producer":{"name":"modelopt"},"quantization":{"quant_algo":"MIXED_PRECISION","quantized_layers":
         {"a":{"quant_algo":"FP8"},"b":{"quant_algo":"NVFP4","group_size":16},"c":{"quant_algo":"FP8"}}}})";
  EXPECT_EQ(of("{}", beside({{"hf_quant_config.json", mixed}})), "modelopt (e4m3 by tensor)");
  EXPECT_EQ(read_quantization_files("{}", beside({{"hf_quant_config.json", mixed}}))->schemes.size(), 2u);
  EXPECT_EQ(of("{}"), "");
}

// AutoAWQ and AutoGPTQ wrote files of their own before config.json had a place for it, without a method.
TEST(Quantization, StandsInFilesOfItsOwn) {
  const auto of = [](const std::string& name, const std::string& text, std::string_view config = "{}") {
    const auto made = read_quantization_files(config, beside({{name, text}}));
    return made ? made->text() : made.error().message();
  };
  const std::string awq = R"({"zero_point":true,"q_group_size":64,"w_bit":4,"version":"GEMM"})";
  const std::string gptq =
      R"({"bits":4,"group_size":-1,"damp_percent":0.01,"desc_act":true,"static_groups":false,"sym":true,
          "true_sequential":true,"model_name_or_path":null,"model_file_base_name":"model"})";
  EXPECT_EQ(of("quant_config.json", awq), "AWQ (int4 in groups of 64, zero points)");
  EXPECT_EQ(of("quantize_config.json", gptq), "GPTQ (int4 by channel, activation order)");
  EXPECT_EQ(of("quantize_config.json", R"({"bits":4,"quant_method":"gptq","group_size":32})"),
            "GPTQ (int4 in groups of 32)");
  // config.json is heard first, and files of these names that mean something else are not.
  EXPECT_EQ(of("quant_config.json", awq, R"({"quantization_config":{"quant_method":"fp8"}})"),
            "FP8 (e4m3 by tensor)");
  EXPECT_EQ(of("quant_config.json", R"({"bits":4,"group_size":64})"), "");
  EXPECT_EQ(of("quant_config.json", "no JSON"), "");
  EXPECT_EQ(of("quantize_config.json", R"({"bits":5,"desc_act":false,"group_size":128})")
                .find("weights quantised by GPTQ in 5 bits are not supported"),
            0u);
}

// A KV cache alone is no business of the weights.
TEST(Quantization, OfModeloptMayBeTheCachesAlone) {
  const auto beside_config = [](const std::string& text) {
    return read_quantization_files("{}", beside({{"hf_quant_config.json", text}}));
  };
  const auto cache = beside_config(R"({"producer":{"name":"modelopt","version":"0.23.0"},"quantization":
      {"quant_algo":null,"kv_cache_quant_algo":"FP8"}})");
  ASSERT_TRUE(cache) << cache.error().message();
  EXPECT_EQ(cache->method, QuantizationMethod::none);
  EXPECT_EQ(beside_config(R"({"producer":{"name":"modelopt"},"quantization":{}})").error().code(),
            StatusCode::corrupt_data);
  EXPECT_EQ(text_of(R"({"quant_method":"modelopt_mixed","quant_algo":"NVFP4"})"), "modelopt (NVFP4)");
}

TEST(Quantization, IsRefusedByName) {
  const auto refused = [](const std::string& how, const std::string& by) {
    const auto made = read(how);
    ASSERT_FALSE(made) << how;
    EXPECT_EQ(made.error().code(), StatusCode::unimplemented);
    EXPECT_EQ(made.error().message().find("weights quantised by " + by + " are not supported; supported: "),
              0u)
        << made.error().message();
  };
  refused(R"({"quant_method":"aqlm"})", "aqlm");
  refused(R"({"a":1})", "an unnamed method");
  refused(R"({"quant_method":"awq","version":"gemv"})", "AWQ in the 'gemv' layout");
  refused(R"({"quant_method":"awq","bits":3})", "AWQ in 3 bits");
  refused(R"({"quant_method":"gptq","bits":5})", "GPTQ in 5 bits");
  refused(R"({"group_size":64,"bits":7})", "MLX in 7 bits");
  refused(R"({"group_size":64,"bits":4,"mode":"nf4"})", "MLX in the mode 'nf4'");
  refused(R"({"group_size":32,"bits":8,"mode":"mxfp4"})", "MLX mxfp4 in 8 bits and groups of 32");
  refused(R"({"group_size":64,"bits":4,"lm_head":{"group_size":64,"bits":1}})", "MLX in 1 bits");
  refused(R"({"quant_method":"gptq","checkpoint_format":"marlin"})", "GPTQ in the 'marlin' layout");
  refused(R"({"quant_method":"gptq","is_marlin_format":true})", "GPTQ in the 'marlin' layout");
  refused(R"({"quant_method":"gptq","is_bitblas_format":true})", "GPTQ in the 'bitblas' layout");
  refused(R"({"quant_method":"awq","checkpoint_format":"gemv_fast"})", "AWQ in the 'gemv_fast' layout");
  refused(R"({"quant_method":"auto-round","bits":5})", "AutoRound in 5 bits");
  refused(R"({"quant_method":"auto-round","bits":4,"extra_config":{"a":{"bits":6}}})", "AutoRound in 6 bits");
  refused(R"({"quant_method":"bitnet","quantization_mode":"online"})", "BitNet in the mode 'online'");
  refused(R"({"quant_method":"bitnet","use_rms_norm":true})", "BitNet with its own norms (use_rms_norm)");
  refused(R"({"quant_method":"fp8","fmt":"e5m2"})", "FP8 in e5m2");
  refused(R"({"quant_method":"modelopt","quant_algo":"W4A8_AWQ"})", "modelopt w4a8_awq");
  refused(R"({"quant_method":"compressed-tensors","format":"marlin-24"})",
          "compressed-tensors in the format 'marlin-24'");
  for (const char* method : {R"("quant_method":"compressed-tensors",)", ""})
    refused(
        std::string("{") + method +
            R"("format":"dense","sparsity_config":{"format":"sparse-24-bitmask","sparsity_structure":"2:4"}})",
        "compressed-tensors in the format 'sparse-24-bitmask'");
  refused(R"({"quant_method":"compressed-tensors","config_groups":{"g":{"weights":{"num_bits":3}}}})",
          "compressed-tensors in 3-bit int");
  refused(R"({"quant_method":"compressed-tensors","transform_config":{"config_groups":{"R1":{}}}})",
          "compressed-tensors with transforms (transform_config)");
  for (const char* damaged :
       {R"({"quant_method":"awq","group_size":0})", R"({"quant_method":"awq","group_size":"big"})",
        R"({"group_size":0,"bits":4})", R"({"group_size":-1,"bits":4})", R"({"group_size":64,"bits":"4"})",
        R"({"group_size":64,"bits":4,"a":{"bits":4,"group_size":"x"}})", R"({"quant_method":"gptq","sym":1})",
        R"({"quant_method":"fp8","weight_block_size":[0,128]})",
        R"({"quant_method":"fp8","weight_block_size":128})",
        R"({"quant_method":"fbgemm_fp8","activation_scale_ub":"big"})"}) {
    const auto made = read(damaged);
    ASSERT_FALSE(made) << damaged;
    EXPECT_EQ(made.error().code(), StatusCode::corrupt_data) << damaged << made.error().message();
  }
}

}  // namespace
}  // namespace pagoda
