// Goal: the families do not get in each other's way, and each has a row of docs/models.md that is true.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "base/strings.h"
#include "models/family.h"
#include "models/read_config.h"

namespace pagoda {
namespace {

TEST(Families, EveryNameIsOneFamilys) {
  std::set<std::string> types;
  std::map<std::string_view, int> ggufs;
  for (const Family* family : families()) {
    for (const FamilyConfig& config : family->configs)
      EXPECT_TRUE(types.insert(concat(config.class_name, " ", config.model_type)).second)
          << config.class_name;
    for (const FamilyWrapper& wrapper : family->wrappers)
      EXPECT_TRUE(types.insert(std::string(wrapper.model_type)).second) << wrapper.model_type;
    for (const FamilyGguf& gguf : family->ggufs) ggufs[gguf.name] += family->only_experts ? 100 : 1;
  }
  for (const auto& [name, count] : ggufs) EXPECT_EQ(count % 100, 1) << name << " with or without experts";
  EXPECT_GT(types.size(), 120u);
  EXPECT_EQ(find_gguf_family("rwkv7"), nullptr);
  EXPECT_EQ(find_gguf_family("llama")->called(), "llama");
  EXPECT_EQ(find_gguf_family("llama", true)->called(), "mixtral");
}

TEST(Families, EveryWrapperHasATextPart) {
  std::set<std::string_view> types;
  for (const Family* family : families())
    for (const FamilyConfig& config : family->configs) types.insert(config.model_type);
  for (const Family* family : families())
    for (const FamilyWrapper& wrapper : family->wrappers) EXPECT_TRUE(types.contains(wrapper.text_type));
}

TEST(Families, EveryRowsSizeIsAModel) {
  for (const Family* family : families()) {
    const FamilyRow& row = family->row;
    SCOPED_TRACE(std::string(row.name));
    EXPECT_FALSE(row.name.empty() || row.differs.empty() || row.checked.empty());
    EXPECT_TRUE(row.vectors || !row.size.empty()) << "has no size to show memory of";
    if (row.size.empty()) continue;
    const auto config = read_config_json(family->config_of_row());
    ASSERT_TRUE(config) << config.error().message();
    EXPECT_EQ(config->family, family);
  }
}

}  // namespace
}  // namespace pagoda
