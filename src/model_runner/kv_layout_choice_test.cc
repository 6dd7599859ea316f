// Goal: keys and values are kept in a type that the model's keys allow, unless the flag says which.
#include "model_runner/kv_layout_choice.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "model_runner/test_sequences.h"
#include "models/read_config.h"

namespace pagoda {
namespace {

using testing::fixture;
using testing::opened;

Result<KvLayout> layout_of(const ModelSource& source, std::string_view dtype,
                           std::string_view kv_cache_dtype) {
  const auto model = read_model_config(source);
  if (!model) return model.error();
  return plan_kv_layout(source, *model, dtype, kv_cache_dtype, 16);
}

TEST(KvLayoutChoice, KvIsStoredInSixteenBitsWhateverTheMatricesAre) {
  const auto stored = [](const char* model, const char* dtype, const char* kv_cache_dtype = "auto") {
    const auto layout = layout_of(*opened(fixture(model)), dtype, kv_cache_dtype);
    EXPECT_TRUE(layout);
    return layout->dtype;
  };
  EXPECT_EQ(stored("llama_gguf_quantized/model.gguf", "auto"), DType::f16);
  EXPECT_EQ(stored("llama_gguf_quantized/model.gguf", "bfloat16"), DType::bf16);
  EXPECT_EQ(stored("llama_gguf_quantized/model.gguf", "float32"), DType::f32);
  EXPECT_EQ(stored("llama_gguf_quantized/model.gguf", "auto", "int8"), DType::i8);
  EXPECT_EQ(stored("llama", "auto"), DType::bf16);
  EXPECT_EQ(stored("llama", "int8"), DType::f16);
  EXPECT_EQ(stored("llama", "float16"), DType::f16);
  EXPECT_EQ(stored("llama", "float32", "int8"), DType::i8);
  EXPECT_EQ(stored("llama", "auto", "fp8"), DType::e4m3);
  EXPECT_EQ(stored("llama_gguf_quantized/model.gguf", "auto", "fp8_e4m3"), DType::e4m3);
  for (const char* folder : {"../quantized/w8a8", "../quantized/awq", "../quantized/fp8_token"})
    EXPECT_EQ(stored(folder, "auto"), DType::bf16) << folder;  // their embeddings are bfloat16
}

// A model whose first layer's key biases, or key norms, have one number of a given size.
class WithLargeKeys final : public ModelSource {
 public:
  WithLargeKeys(std::shared_ptr<const ModelSource> model, const std::string& name, float size)
      : model_(std::move(model)), name_(name), view_(*model_->find(name)) {
    values_.assign(static_cast<std::size_t>(view_.elements()), 1.0f);
    values_.back() = -size;
    view_.dtype = DType::f32;
    view_.data = reinterpret_cast<const std::byte*>(values_.data());
  }
  ModelFormat format() const override { return model_->format(); }
  std::string_view config_json() const override { return model_->config_json(); }
  const GgufFile* gguf() const override { return model_->gguf(); }
  const TensorView* find(std::string_view name) const override {
    return name == name_ ? &view_ : model_->find(name);
  }
  std::vector<std::string> tensor_names() const override { return model_->tensor_names(); }
  const std::string& path() const override { return model_->path(); }

 private:
  std::shared_ptr<const ModelSource> model_;
  std::string name_;
  TensorView view_;
  std::vector<float> values_;
};

TEST(KvLayoutChoice, LargeChannelsOfKeysAreStoredInFloat16) {
  const auto stored = [](const char* model, const char* name, float size, const char* dtype = "auto") {
    return layout_of(WithLargeKeys(opened(fixture(model)), name, size), dtype, "auto")->dtype;
  };
  const char* const bias = "model.layers.0.self_attn.k_proj.bias";
  EXPECT_EQ(stored("qwen2", bias, 7), DType::bf16);
  EXPECT_EQ(stored("qwen2", bias, 300), DType::f16);
  EXPECT_EQ(stored("qwen2", bias, 300, "int8"), DType::f16);
  EXPECT_EQ(stored("qwen2", bias, 300, "float32"), DType::f32);
  EXPECT_EQ(stored("qwen2", bias, 40000, "int8"), DType::bf16);
  EXPECT_EQ(stored("qwen2", bias, 40000), DType::bf16);  // beside which keys might be infinite
  EXPECT_EQ(stored("qwen2", "model.layers.0.self_attn.q_proj.bias", 300), DType::bf16);
  EXPECT_EQ(stored("qwen3", "model.layers.1.self_attn.k_norm.weight", 60), DType::f16);
  EXPECT_EQ(stored("gpt2", "transformer.h.0.attn.c_attn.bias", 300), DType::f16);
}

// A model with other heads; nothing else of it is looked at.
class WithHeadSize final : public ModelSource {
 public:
  WithHeadSize(std::shared_ptr<const ModelSource> model, std::int32_t head_size) : model_(std::move(model)) {
    boost::json::object config = boost::json::parse(model_->config_json()).as_object();
    config["head_dim"] = head_size;
    config_ = boost::json::serialize(config);
  }
  ModelFormat format() const override { return model_->format(); }
  std::string_view config_json() const override { return config_; }
  const TensorView* find(std::string_view name) const override { return model_->find(name); }
  std::vector<std::string> tensor_names() const override { return model_->tensor_names(); }
  const std::string& path() const override { return model_->path(); }

 private:
  std::shared_ptr<const ModelSource> model_;
  std::string config_;
};

TEST(KvLayoutChoice, HugeHeadsAreNotStoredInEightBits) {
  const auto model = opened(fixture("llama"));
  const WithHeadSize large(model, 512), huge(model, 516);
  EXPECT_EQ(layout_of(large, "int8", "int8")->dtype, DType::i8);
  const auto refused = layout_of(huge, "int8", "int8");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("have 516"), std::string::npos) << refused.error().message();
}

}  // namespace
}  // namespace pagoda
