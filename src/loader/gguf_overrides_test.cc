#include "loader/gguf_overrides.h"

#include <gtest/gtest.h>

#include "loader/test_gguf.h"
#include "models/read_config.h"

namespace pagoda {
namespace {

using testing::GgufBuilder;

class GgufOverrides : public ::testing::Test {
 protected:
  GgufOverrides()
      : bytes_(GgufBuilder()
                   .string("general.architecture", "qwen3")
                   .u32("qwen3.context_length", 40960)
                   .u32("qwen3.embedding_length", 64)
                   .u32("qwen3.block_count", 2)
                   .u32("qwen3.feed_forward_length", 128)
                   .u32("qwen3.attention.head_count", 4)
                   .f32("qwen3.attention.layer_norm_rms_epsilon", 1e-6f)
                   .f32("qwen3.rope.freq_base", 1e6f)
                   .strings("tokenizer.ggml.tokens", {"a"})
                   .build()),
        file_(*GgufFile::parse(testing::as_bytes(bytes_))) {}

  ModelInfo config() {
    const auto config = read_gguf_config(file_);
    EXPECT_TRUE(config) << config.error().message();
    return config ? *config : ModelInfo{};
  }

  std::string bytes_;
  GgufFile file_;
};

TEST_F(GgufOverrides, MetadataByName) {
  ASSERT_TRUE(override_metadata(file_,
                                "qwen3.context_length=int:100,qwen3.rope.freq_base=float:5e5,"
                                "tokenizer.ggml.add_bos_token=bool:false,general.name=str:a:b")
                  .ok());
  EXPECT_EQ(config().decoder.max_positions, 100);
  EXPECT_FLOAT_EQ(config().decoder.ropes.front().theta, 5e5f);
  EXPECT_EQ(config().name, "a:b");
  EXPECT_EQ(file_.boolean("tokenizer.ggml.add_bos_token"), false);
  for (const char* wrong :
       {"x", "=int:1", "a=int", "a=int:x", "a=int:", "a=float:nan", "a=bool:1", "a=u8:1", "a=int:1,,"}) {
    const Status status = override_metadata(file_, wrong);
    EXPECT_EQ(status.code(), StatusCode::invalid_argument) << wrong;
  }
}

// As Qwen3's own page stretches it.
TEST_F(GgufOverrides, FieldsOfConfigJson) {
  ASSERT_TRUE(override_as_config(file_, R"({"rope_scaling":{"rope_type":"yarn","factor":4.0,
      "original_max_position_embeddings":32768},"sliding_window":12})")
                  .ok());
  EXPECT_EQ(config().decoder.ropes.front().scaling, RopeScaling::yarn);
  EXPECT_FLOAT_EQ(config().decoder.ropes.front().factor, 4);
  EXPECT_EQ(config().decoder.ropes.front().original_positions, 32768);
  EXPECT_EQ(config().decoder.max_positions, 131072);
  EXPECT_EQ(config().decoder.layers.front().attention()->sliding_window, 12);
  ASSERT_TRUE(override_as_config(file_, R"({"rope_scaling":null,"max_position_embeddings":50000})").ok());
  EXPECT_EQ(config().decoder.ropes.front().scaling, RopeScaling::none);
  EXPECT_EQ(config().decoder.max_positions, 50000);
  for (const char* wrong :
       {"[]", R"({"hidden_act":"relu"})", R"({"rope_scaling":1})", R"({"rope_theta":"x"})",
        R"({"rope_scaling":{"short_factor":[1]}})", R"({"sliding_window":1e300})"})
    EXPECT_EQ(override_as_config(file_, wrong).code(), StatusCode::invalid_argument) << wrong;
  EXPECT_NE(override_as_config(file_, R"({"hidden_act":"relu"})").message().find("--override-kv"),
            std::string::npos);
}

// --rope-scale alone: YaRN where the file has it, else linear.
TEST_F(GgufOverrides, AFactorWithoutAType) {
  ASSERT_TRUE(override_rope(file_, R"({"factor":2.0})").ok());
  EXPECT_EQ(config().decoder.ropes.front().scaling, RopeScaling::linear);
  EXPECT_FLOAT_EQ(config().decoder.ropes.front().factor, 2);
  ASSERT_TRUE(override_rope(file_, R"({"rope_type":"yarn","original_max_position_embeddings":512})").ok());
  ASSERT_TRUE(override_rope(file_, R"({"factor":8.0})").ok());
  EXPECT_EQ(config().decoder.ropes.front().scaling, RopeScaling::yarn);
  EXPECT_FLOAT_EQ(config().decoder.ropes.front().factor, 8);
}

}  // namespace
}  // namespace pagoda
