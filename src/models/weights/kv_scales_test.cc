// Goal: the scales of keys and values are found under every name that calibrating programs give them, one for
// a layer, and what cannot be used is refused by name.
#include "models/weights/kv_scales.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/read_config.h"

namespace pagoda {
namespace {

// The small Llama of the fixtures, with scales beside.
class Scaled final : public ModelSource {
 public:
  Scaled() {
    auto source = ModelSource::open(PAGODA_SOURCE_DIR "/tests/fixtures/tiny_models/llama");
    EXPECT_TRUE(source);
    model_ = *std::move(source);
    config_ = std::string(model_->config_json());
  }
  Scaled& add(const std::string& name, std::vector<float> values) {
    values_.push_back(std::make_unique<std::vector<float>>(std::move(values)));
    const auto& all = *values_.back();
    views_[name] = {
        DType::f32, {static_cast<std::int64_t>(all.size())}, reinterpret_cast<const std::byte*>(all.data())};
    return *this;
  }
  Scaled& say(const std::string& name, const std::string& value) {
    boost::json::object config = boost::json::parse(config_).as_object();
    config[name] = boost::json::parse(value);
    config_ = boost::json::serialize(config);
    return *this;
  }
  Result<std::vector<KvScales>> scales() const {
    const auto model = read_model_config(*this);
    EXPECT_TRUE(model);
    return kv_scales(*this, *model);
  }

  ModelFormat format() const override { return model_->format(); }
  std::string_view config_json() const override { return config_; }
  const TensorView* find(std::string_view name) const override { return model_->find(name); }
  const TensorView* find_kv_scale(std::string_view name) const override {
    const auto found = views_.find(std::string(name));
    return found == views_.end() ? nullptr : &found->second;
  }
  std::vector<std::string> tensor_names() const override { return model_->tensor_names(); }
  const std::string& path() const override { return model_->path(); }

 private:
  std::unique_ptr<ModelSource> model_;
  std::string config_;
  std::vector<std::unique_ptr<std::vector<float>>> values_;
  std::map<std::string, TensorView> views_;
};

const std::string kFirst = "model.layers.0.self_attn.", kSecond = "model.layers.1.self_attn.";

TEST(KvScales, AreOneWithoutAny) {
  const auto scales = Scaled().scales();
  ASSERT_TRUE(scales);
  ASSERT_GE(scales->size(), 2u);
  for (const KvScales& each : *scales) EXPECT_EQ(each, KvScales{});
}

TEST(KvScales, HaveTheNamesThatProgramsGiveThem) {
  struct Names {
    std::string key, value;
  };
  for (const auto& [key, value] :
       {Names{"k_scale", "v_scale"}, Names{"attn.k_scale", "attn.v_scale"},
        Names{"k_proj.k_scale", "v_proj.v_scale"}, Names{"qkv_proj.k_scale", "qkv_proj.v_scale"},
        Names{"k_proj.output_scale", "v_proj.output_scale"}}) {
    Scaled model;
    model.add(kFirst + key, {0.5f}).add(kFirst + value, {0.25f}).add(kSecond + value, {0.125f});
    const auto scales = model.scales();
    ASSERT_TRUE(scales) << key;
    EXPECT_EQ((*scales)[0], (KvScales{.key = 0.5f, .value = 0.25f, .in_file = true})) << key;
    EXPECT_EQ((*scales)[1], (KvScales{.key = 0.125f, .value = 0.125f, .in_file = true})) << key;
  }
  Scaled both;
  both.add(kFirst + "kv_scale", {3.0f});
  EXPECT_EQ(both.scales()->front(), (KvScales{.key = 3, .value = 3, .in_file = true}));
}

TEST(KvScales, ThatCannotBeUsedAreRefusedByName) {
  const auto refused = [](const std::string& name, std::vector<float> values) {
    Scaled model;
    const auto scales = model.add(kSecond + name, std::move(values)).scales();
    return scales ? std::string() : scales.error().message();
  };
  EXPECT_NE(refused("k_scale", {1, 1}).find("self_attn.k_scale' has 2 scales"), std::string::npos);
  for (const float bad :
       {0.0f, -1.0f, 1e-40f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
    EXPECT_NE(refused("v_scale", {bad}).find("self_attn.v_scale', a scale, is not a number above 0"),
              std::string::npos)
        << bad;
  Scaled model;
  model.add(kFirst + "k_scale", {0.5f});
  const std::string floats =
      R"({"quant_method":"compressed-tensors","kv_cache_scheme":{"num_bits":8,"type":"float"}})";
  EXPECT_TRUE(model.say("quantization_config", floats).scales());
  const std::string integers =
      R"({"quant_method":"compressed-tensors","kv_cache_scheme":{"num_bits":8,"type":"int"}})";
  const auto scales = model.say("quantization_config", integers).scales();
  ASSERT_FALSE(scales);
  EXPECT_NE(scales.error().message().find("in integers"), std::string::npos);
}

}  // namespace
}  // namespace pagoda
