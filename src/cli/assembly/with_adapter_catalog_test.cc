// The catalog of adapters, over a runner of a small model: names, digests, limits.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "cli/assembly/adapter_catalog.h"
#include "loader/mapped_file.h"
#include "model_runner/local_model_runner.h"

namespace pagoda {
namespace {

namespace fs = std::filesystem;

const std::string kFixtureFolder = PAGODA_SOURCE_DIR "/tests/fixtures/";
const std::string kAdapterFolder = kFixtureFolder + "adapters/";

std::string digest_of(const std::string& path) {
  const auto adapter = Adapter::open(path, 1, {});
  EXPECT_TRUE(adapter) << adapter.error().message();
  const auto digest = adapter_digest(*adapter);
  EXPECT_TRUE(digest) << digest.error().message();
  return *digest;
}

// A copy of an adapter of the fixtures under this name, in which a text of its configuration or a byte of its
// weights is changed.
std::string copy_of(const std::string& adapter, const std::string& name, const std::string& before = {},
                    const std::string& after = {}, bool change_weights = false) {
  std::string config = *read_text_file(kAdapterFolder + adapter + "/adapter_config.json");
  std::string weights = *read_text_file(kAdapterFolder + adapter + "/adapter_model.safetensors");
  if (!before.empty()) config.replace(config.find(before), before.size(), after);
  if (change_weights) weights.back() = static_cast<char>(weights.back() ^ 1);
  const fs::path folder = fs::path(::testing::TempDir()) / ("pagoda_adapter_" + name);
  fs::create_directories(folder);
  std::ofstream(folder / "adapter_config.json", std::ios::binary) << config;
  std::ofstream(folder / "adapter_model.safetensors", std::ios::binary) << weights;
  return folder.string();
}

TEST(AdapterDigest, IsOfTheContentAlone) {
  const std::string plain = digest_of(kAdapterFolder + "plain");
  EXPECT_EQ(plain.size(), 64u);
  EXPECT_EQ(digest_of(copy_of("plain", "same", "tiny/llama", "elsewhere")), plain);
  EXPECT_NE(digest_of(copy_of("plain", "other_scale", R"("lora_alpha": 7)", R"("lora_alpha": 8)")), plain);
  EXPECT_NE(digest_of(copy_of("plain", "other_weights", {}, {}, true)), plain);
  std::set<std::string> all;
  std::size_t count = 0;
  for (const auto& folder : fs::directory_iterator(kAdapterFolder)) {
    all.insert(digest_of(folder.path().string()));
    ++count;
  }
  EXPECT_EQ(all.size(), count);
}

class LoadedAdaptersTest : public ::testing::Test {
 protected:
  explicit LoadedAdaptersTest(AdapterLimits limits = {.max_adapters = 3, .max_rank = 16})
      : set(std::make_shared<AdapterSet>(limits)), adapters(set, HubPaths{}) {
    auto source = ModelSource::open(kFixtureFolder + "tiny_models/llama", {}, {});
    EXPECT_TRUE(source);
    RunnerOptions options;
    options.dtype = "float32";
    options.num_blocks = 10;
    options.adapters = set;
    auto created = LocalModelRunner::create(std::shared_ptr<const ModelSource>(*std::move(source)), options);
    EXPECT_TRUE(created) << created.error().message();
    runner = *std::move(created);
    adapters.set_model_names({"base", "alias"});
  }
  std::shared_ptr<AdapterSet> set;
  std::unique_ptr<LocalModelRunner> runner;
  LoadedAdapters adapters;
};

TEST_F(LoadedAdaptersTest, AreFoundByNameInTheOrderInWhichTheyCame) {
  EXPECT_TRUE(adapters.list().empty());
  const auto plain = adapters.load("p", kAdapterFolder + "plain", false);
  ASSERT_TRUE(plain) << plain.error().message();
  ASSERT_TRUE(adapters.load("r", kAdapterFolder + "rslora", false));
  EXPECT_EQ(adapters.find("p"), *plain);
  EXPECT_EQ(adapters.find("q"), nullptr);
  ASSERT_EQ(adapters.list().size(), 2u);
  EXPECT_EQ(adapters.list()[1]->name, "r");
  EXPECT_EQ((*plain)->name, "p");
  EXPECT_EQ((*plain)->path, kAdapterFolder + "plain");
  EXPECT_EQ((*plain)->identity, digest_of(kAdapterFolder + "plain"));
  EXPECT_EQ((*plain)->rank, 3);
  EXPECT_NE((*plain)->id, adapters.list()[1]->id);
}

TEST_F(LoadedAdaptersTest, OneThatGoesStaysForWhoHoldsIt) {
  const auto held = *adapters.load("p", kAdapterFolder + "plain", false);
  EXPECT_EQ(adapters.load("p", kAdapterFolder + "rslora", false).error().code(), StatusCode::already_exists);
  auto replaced = adapters.load("p", kAdapterFolder + "rslora", true);
  ASSERT_TRUE(replaced);
  EXPECT_NE((*replaced)->id, held->id);
  EXPECT_NE((*replaced)->identity, held->identity);
  EXPECT_EQ(adapters.list().size(), 1u);
  EXPECT_TRUE(adapters.unload("p").ok());
  EXPECT_EQ(adapters.unload("p").code(), StatusCode::not_found);
  EXPECT_EQ(adapters.find("p"), nullptr);
  EXPECT_NE(set->find(held->id), nullptr) << "its factors are there while somebody holds it";
  const AdapterId id = (*replaced)->id;
  EXPECT_NE(set->find(id), nullptr);
  replaced->reset();
  EXPECT_EQ(set->find(id), nullptr);
}

TEST_F(LoadedAdaptersTest, WhatCannotBeIsRefusedAndChangesNothing) {
  for (const std::string& name : {std::string(), std::string("a\nb"), std::string("\xff"),
                                  std::string("base"), std::string("alias"), std::string(257, 'x')}) {
    const auto refused = adapters.load(name, kAdapterFolder + "plain", false);
    EXPECT_EQ(refused.error().code(), StatusCode::invalid_argument);
    EXPECT_EQ(refused.error().param(), "lora_name");
  }
  EXPECT_EQ(adapters.load("a", "/no/such/folder", false).error().code(), StatusCode::not_found);
  EXPECT_EQ(adapters.load("../../etc", kAdapterFolder + "none", false).error().code(), StatusCode::not_found);
  EXPECT_TRUE(adapters.load("../../etc/passwd", kAdapterFolder + "plain", false)) << "a name is no path";
  const auto held = adapters.find("../../etc/passwd");
  EXPECT_FALSE(adapters.load("../../etc/passwd", kAdapterFolder + "conv1d", true)) << "of another model";
  EXPECT_EQ(adapters.find("../../etc/passwd"), held);
  ASSERT_TRUE(adapters.load("2", kAdapterFolder + "plain", false));
  ASSERT_TRUE(adapters.load("3", kAdapterFolder + "plain", false));
  EXPECT_EQ(adapters.load("4", kAdapterFolder + "plain", false).error().code(),
            StatusCode::resource_exhausted);
  EXPECT_TRUE(adapters.load("3", kAdapterFolder + "rslora", true));
  EXPECT_TRUE(adapters.unload("2").ok());
  EXPECT_TRUE(adapters.load("4", kAdapterFolder + "plain", false));
}

TEST(LoraFlagsCheck, NamesTheFlagsThatCannotBeTogether) {
  const auto message = [](auto change) {
    EngineFlags flags;
    flags.lora.enable = true;
    change(flags);
    return std::string(check_lora_flags(flags).message());
  };
  EXPECT_EQ(message([](EngineFlags&) {}), "");
  EXPECT_EQ(message([](EngineFlags& flags) {
              flags.lora.enable = false;
              flags.lora.modules = {{"a", "b"}};
            }),
            "--lora-modules needs --enable-lora");
  EXPECT_NE(
      message([](EngineFlags& flags) { flags.tensor_parallel_size = 2; }).find("--tensor-parallel-size"),
      std::string::npos);
  EXPECT_EQ(message([](EngineFlags& flags) { flags.device = "cuda"; }), "");
  EXPECT_NE(message([](EngineFlags& flags) {
              flags.lora.max_loras = 4;
              flags.lora.max_cpu_loras = 2;
            }).find("--max-cpu-loras 2"),
            std::string::npos);
}

}  // namespace
}  // namespace pagoda
