// Goal: every key of a rotation's scaling gives the frequencies and the scale that transformers computes from
// it, from a folder and from what llama.cpp's converter writes into GGUF; keys that only llama.cpp has give
// what that computes. Rows: tests/fixtures/rope.json, made by make_rope.py there.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cmath>

#include "loader/test_files.h"
#include "loader/test_gguf.h"
#include "models/read_config.h"
#include "models/rope_table.h"
#include "models/weight_names.h"

namespace pagoda {
namespace {

namespace json = boost::json;
using testing::GgufBuilder;

struct Rotation {
  std::vector<double> frequencies, long_frequencies;
  double scale = 0;
};

Rotation rotation_of(const ModelInfo& config, const std::vector<float>& factors = {},
                     const std::vector<float>& long_factors = {}) {
  const RopeConfig& rope = config.decoder.ropes.front();
  constexpr std::int32_t kLong = 1 << 20;  // positions
  return {rope_frequencies(rope, factors),
          rope_frequencies(rope, long_factors.empty() ? factors : long_factors, kLong),
          rope.attention_factor};
}

Result<ModelInfo> read_gguf(const GgufBuilder& builder) {
  const std::string bytes = builder.build();
  const Result<GgufFile> file = GgufFile::parse(testing::as_bytes(bytes));
  if (!file) return file.error();
  return read_gguf_config(*file);
}

GgufBuilder rope_llama(float theta = 7000) {
  GgufBuilder builder;
  builder.string("general.architecture", "llama")
      .u32("llama.context_length", 96)
      .u32("llama.embedding_length", 64)
      .u32("llama.block_count", 2)
      .u32("llama.feed_forward_length", 128)
      .u32("llama.attention.head_count", 4)
      .f32("llama.attention.layer_norm_rms_epsilon", 1e-6f)
      .f32("llama.rope.freq_base", theta)
      .strings("tokenizer.ggml.tokens", {"a", "b", "c", "d"});
  return builder;
}

std::vector<float> floats_of(const json::value& list) {
  std::vector<float> out;
  for (const json::value& each : list.as_array()) out.push_back(each.to_number<float>());
  return out;
}

void expect_row(const json::object& row, const Rotation& rotation) {
  const auto& expected = row.at("frequencies").as_array();
  ASSERT_EQ(rotation.frequencies.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double value = expected[i].to_number<double>();
    EXPECT_NEAR(rotation.frequencies[i], value, 1e-6 * (value + 1e-3)) << "pair " << i;
  }
  EXPECT_NEAR(rotation.scale, row.at("scale").to_number<double>(), 1e-6);
}

class RopeKeys : public ::testing::Test {
 protected:
  RopeKeys() : rows_(json::parse(testing::read_binary(testing::loader_fixture("../rope.json"))).as_array()) {}
  json::array rows_;
};

TEST_F(RopeKeys, OfFolders) {
  for (const json::value& each : rows_) {
    const json::object& row = each.as_object();
    SCOPED_TRACE(std::string(row.at("name").as_string()));
    json::object config = row.at("config").as_object();
    config["model_type"] = "llama";
    config["hidden_size"] = 64;
    config["num_attention_heads"] = 4;
    const auto read = read_config_json(json::serialize(config), {});
    ASSERT_TRUE(read) << read.error().message();
    const Rotation rotation = rotation_of(*read);
    expect_row(row, rotation);
    const json::object& scaling = config.at("rope_scaling").as_object();
    if (!scaling.contains("long_factor")) continue;
    const std::vector<float> factors = floats_of(scaling.at("long_factor"));
    for (std::size_t i = 0; i < factors.size(); ++i)
      EXPECT_NEAR(rotation.long_frequencies[i], std::pow(7000.0, -2.0 * i / 16) / factors[i], 1e-7);
  }
}

TEST_F(RopeKeys, OfConvertersFiles) {
  for (const json::value& each : rows_) {
    const json::object& row = each.as_object();
    if (row.at("gguf").is_null()) continue;
    SCOPED_TRACE(std::string(row.at("name").as_string()));
    GgufBuilder builder = rope_llama();
    std::map<std::string, std::vector<float>> tensors;
    for (const auto& [key, value] : row.at("gguf").as_object()) {
      const std::string full = "llama." + std::string(key);
      if (value.is_array()) {
        const std::vector<float>& values = tensors[std::string(key)] = floats_of(value);
        builder.tensor(key, {values.size()}, 0,
                       {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
      } else if (value.is_string()) {
        builder.string(full, value.as_string());
      } else if (value.is_int64()) {
        builder.u32(full, value.to_number<std::uint32_t>());
      } else {
        builder.f32(full, value.to_number<float>());
      }
    }
    const auto read = read_gguf(builder);
    ASSERT_TRUE(read) << read.error().message();
    EXPECT_EQ(read->decoder.ropes.front().scaling == RopeScaling::longrope,
              tensors.contains("rope_factors_long.weight"));
    const std::vector<float>& factors =
        tensors[tensors.contains("rope_freqs.weight") ? "rope_freqs.weight" : "rope_factors_short.weight"];
    const Rotation rotation = rotation_of(*read, factors, tensors["rope_factors_long.weight"]);
    expect_row(row, rotation);
  }
}

// As src/llama-context.cpp and src/llama-model.cpp there compute it.
TEST(RopeKeysOfLlamaCpp, AreUnderstood) {
  const double second = std::pow(7000.0, -2.0 / 16);
  const auto expect = [&](const GgufBuilder& builder, double frequency, double scale) {
    const auto read = read_gguf(builder);
    ASSERT_TRUE(read) << read.error().message();
    const Rotation rotation = rotation_of(*read);
    EXPECT_NEAR(rotation.frequencies[1], frequency, 1e-6);
    EXPECT_NEAR(rotation.scale, scale, 1e-6);
  };
  {
    SCOPED_TRACE("a scale without a type, and beside one");
    expect(rope_llama().f32("llama.rope.scaling.attn_factor", 1.4f), second, 1.4);
    expect(rope_llama()
               .string("llama.rope.scaling.type", "linear")
               .f32("llama.rope.scaling.factor", 4)
               .f32("llama.rope.scaling.attn_factor", 1.4f),
           second / 4, 1.4);
  }
  {
    SCOPED_TRACE("factors without a type, under the old name, and without effect");
    expect(rope_llama().f32("llama.rope.scaling.factor", 4), second / 4, 1);
    expect(rope_llama().f32("llama.rope.scale_linear", 4), second / 4, 1);
    expect(rope_llama().f32("llama.rope.scaling.factor", 0), second, 1);
    expect(rope_llama().string("llama.rope.scaling.type", "none").f32("llama.rope.scaling.factor", 4), second,
           1);
  }
  const GgufBuilder yarn = rope_llama()
                               .string("llama.rope.scaling.type", "yarn")
                               .f32("llama.rope.scaling.factor", 3)
                               .u32("llama.rope.scaling.original_context_length", 24);
  const double scale = 0.1 * std::log(3.0) + 1;
  const auto plain = read_gguf(yarn);
  ASSERT_TRUE(plain);
  const double blended = rotation_of(*plain).frequencies[1];
  {
    SCOPED_TRACE("yarn");
    expect(GgufBuilder(yarn).f32("llama.rope.scaling.attn_factor", 1.4f), blended, scale * 1.4);
    expect(GgufBuilder(yarn)
               .f32("llama.rope.scaling.attn_factor", 1.4f)
               .f32("llama.rope.scaling.yarn_attn_factor", 1.25f),
           blended, 1.25 * 1.4);
    // As llama.cpp saves any model: its defaults, which stand for what follows from the factor.
    expect(GgufBuilder(yarn)
               .f32("llama.rope.scaling.yarn_attn_factor", 1)
               .f32("llama.rope.scaling.yarn_ext_factor", -1)
               .f32("llama.rope.scaling.alpha", 0),
           blended, scale);
  }
  EXPECT_FALSE(read_gguf(GgufBuilder(yarn).f32("llama.rope.scaling.yarn_attn_factor", -1)));
}

// A base of layers with windows is that of all families that have any; others do without.
TEST(RopeKeysOfLlamaCpp, BaseOfWindows) {
  auto read = read_gguf(rope_llama().f32("llama.rope.freq_base_swa", 300));
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->decoder.ropes.size(), 1u);
  read =
      read_gguf(rope_llama().f32("llama.rope.freq_base_swa", 300).u32("llama.attention.sliding_window", 8));
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->decoder.layers[1].attention()->rope, 1);
  EXPECT_FLOAT_EQ(read->decoder.ropes[1].theta, 300);
}

}  // namespace
}  // namespace pagoda
