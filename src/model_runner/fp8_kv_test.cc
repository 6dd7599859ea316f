// Goal: keys and values in 8-bit floats have the scales of the model's folder, are near those in float32
// where the scales fit, and the scales are no weights.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "model_runner/family_model.h"
#include "model_runner/local_model_runner.h"

namespace pagoda::testing {
namespace {

class Fp8Kv : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "fp8_kv_" + std::to_string(::getpid());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // The family's model with a scale for each of its layers, from `scale` on by turns 1, 2 and 4 times as
  // large; 0: without.
  std::string model(const std::string& family_name, float scale) {
    const boost::json::object family = read_family(family_name);
    std::vector<FamilyTensor> tensors = family_tensors(family);
    const std::size_t count = tensors.size();
    float factor = 1;
    for (std::size_t i = 0; i < count && scale > 0; ++i) {
      const std::string name = tensors[i].name;
      for (const std::string_view key : {"k_proj.weight", "kv_a_proj_with_mqa.weight"}) {
        if (!name.ends_with(key)) continue;
        const std::string module = name.substr(0, name.size() - key.size());
        tensors.push_back({module + "k_scale", {1}, {scale * factor}});
        tensors.push_back({module + "v_scale", {}, {scale * factor / 2}});
        factor = factor == 4 ? 1 : 2 * factor;
      }
    }
    const std::string where = folder_ + "/" + std::to_string(++made_);
    std::filesystem::create_directories(where);
    std::ofstream(where + "/config.json") << boost::json::serialize(family.at("config"));
    write_safetensors(where + "/model.safetensors", tensors);
    return where;
  }

  TestSequence drawn(const std::string& where, const std::string& kv_cache_dtype) {
    std::vector<TokenId> prompt;
    for (std::uint64_t i = 0; i < 40; ++i) prompt.push_back(static_cast<TokenId>(random_bits(5, 1, i) % 64));
    TestSequence sequence = greedy(prompt);
    sequence.prompt_logprobs = 1;
    auto source = ModelSource::open(where);
    EXPECT_TRUE(source) << source.error().message();
    for (const std::string& name : (*source)->tensor_names()) EXPECT_FALSE(name.ends_with("_scale")) << name;
    RunnerOptions options;
    options.dtype = "float32";
    options.kv_cache_dtype = kv_cache_dtype;
    options.num_blocks = 64;
    options.max_context = 128;
    const auto runner =
        LocalModelRunner::create(std::shared_ptr<const ModelSource>(*std::move(source)), options);
    EXPECT_TRUE(runner) << runner.error().message();
    EXPECT_TRUE((*runner)->ignored_tensors().empty());
    Driver driver(**runner);
    EXPECT_TRUE(driver.generate({&sequence}, 6, 9).ok());
    return sequence;
  }

 private:
  std::string folder_;
  int made_ = 0;
};

// The largest difference of the logarithm of a prompt's token.
double difference(const TestSequence& a, const TestSequence& b) {
  double largest = 0;
  EXPECT_EQ(a.prompt_scores.size(), 39u);
  for (std::size_t i = 0; i < a.prompt_scores.size(); ++i)
    largest = std::max(largest, std::fabs(static_cast<double>(a.prompt_scores[i].chosen.logprob) -
                                          static_cast<double>(b.prompt_scores[i].chosen.logprob)));
  return largest;
}

TEST_F(Fp8Kv, HaveTheFoldersScales) {
  // Keys of each layer's own, one row for keys and values, and keys of an earlier layer.
  for (const char* const family : {"llama_yarn", "deepseek_v2", "gemma4_shared"}) {
    SCOPED_TRACE(family);
    const std::string plain = model(family, 0), fitting = model(family, 1.0f / 8),
                      tiny = model(family, 1e-6f);
    const TestSequence exact = drawn(plain, "float32"), of_one = drawn(plain, "fp8");
    const double least = difference(exact, of_one), scaled = difference(exact, drawn(fitting, "fp8"));
    EXPECT_GT(least, 0);
    EXPECT_GT(scaled, 0);
    EXPECT_LT(scaled, 2 * least + 0.01);
    EXPECT_GT(difference(of_one, drawn(tiny, "fp8_e4m3")), 0.1) << "every number becomes the largest";
    expect_same_draws(exact, drawn(tiny, "float32"));  // other types have no use for them
  }
}

}  // namespace
}  // namespace pagoda::testing
