#include "hub/short_names.h"

#include <gtest/gtest.h>

#include "hub/pull.h"

namespace pagoda {
namespace {

TEST(ShortNames, OfTheTableInOllamasForm) {
  EXPECT_EQ(full_name("smollm2:135m"), "bartowski/SmolLM2-135M-Instruct-GGUF:Q8_0");
  EXPECT_EQ(full_name("qwen3"), "Qwen/Qwen3-8B-GGUF:Q4_K_M");
  EXPECT_EQ(full_name("qwen3:latest"), full_name("qwen3"));
  EXPECT_EQ(full_name("qwen3:8b-q8_0"), "Qwen/Qwen3-8B-GGUF:Q8_0");
  EXPECT_EQ(full_name("llama3.2:1b-instruct-q4_K_M"), "bartowski/Llama-3.2-1B-Instruct-GGUF:Q4_K_M");
  EXPECT_EQ(full_name("qwen3:9b"), "qwen3:9b");
  EXPECT_EQ(full_name("qwen3:8b-base"), "qwen3:8b-base");
  EXPECT_EQ(full_name("other"), "other");
}

TEST(ShortNames, EveryRowIsANameOnTheHubThatItsOwnNameFinds) {
  for (const ShortName& row : short_names()) {
    const auto name = parse_pull_name(row.repository);
    ASSERT_TRUE(name) << row.repository;
    EXPECT_EQ(full_name(std::string(row.name) + ":" + std::string(row.size)), row.repository);
    EXPECT_FALSE(full_name(row.name).empty());
  }
}

TEST(ShortNames, AddressesOfTheHub) {
  EXPECT_EQ(full_name("hf.co/org/name:Q4_K_M"), "org/name:Q4_K_M");
  EXPECT_EQ(full_name("https://huggingface.co/org/name"), "org/name");
  EXPECT_EQ(full_name("https://huggingface.co/org/name/"), "org/name");
  EXPECT_EQ(full_name("https://hf.co/org/name/tree/main"), "org/name");
  EXPECT_EQ(full_name("https://huggingface.co/org/name/tree/v2"), "org/name@v2");
  EXPECT_EQ(full_name("https://huggingface.co/org/name/resolve/main/a/m-Q8_0.gguf?download=true"),
            "org/name:a/m-Q8_0.gguf");
  EXPECT_EQ(full_name("huggingface.co/org/name/blob/abc/m.gguf"), "org/name@abc:m.gguf");
  EXPECT_EQ(full_name("org/name:Q8_0"), "org/name:Q8_0");
  EXPECT_EQ(full_name("hf://org/name:Q8_0"), "org/name:Q8_0");
  EXPECT_EQ(full_name("https://example.com/a/b"), "https://example.com/a/b");
}

}  // namespace
}  // namespace pagoda
