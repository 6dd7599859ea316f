// Goal: the list of families is whole. A family that the loader reads has a row, which names it once.
#include "models/families.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "loader/config_json.h"
#include "loader/family_names.h"
#include "models/decoder.h"

namespace pagoda {
namespace {

std::int64_t rows_with(std::string_view name, std::string_view ModelFamily::*names) {
  return std::ranges::count_if(model_families(),
                               [&](const ModelFamily& family) { return is_one_of(name, family.*names); });
}

TEST(ModelFamilies, EveryNameHasARow) {
  for (const ConfigFamilyName& name : config_family_names())
    EXPECT_EQ(rows_with(name.model_type, &ModelFamily::model_types), 1)
        << name.model_type << ": give it a row in src/models/families.cc";
  for (const std::string_view name : gguf_family_names())
    EXPECT_EQ(rows_with(name, &ModelFamily::gguf), name == "llama" ? 2 : 1)
        << name << ": give it a row in src/models/families.cc";
}

TEST(ModelFamilies, EveryRowsNamesAreRead) {
  const auto configs = config_family_names();
  const auto ggufs = gguf_family_names();
  for (const ModelFamily& family : model_families()) {
    std::istringstream types{std::string(family.model_types)}, architectures{std::string(family.gguf)};
    for (std::string name; types >> name;)
      EXPECT_TRUE(std::ranges::any_of(configs, [&](const auto& each) { return each.model_type == name; }))
          << name;
    for (std::string name; architectures >> name;)
      EXPECT_NE(std::ranges::find(ggufs, name), ggufs.end()) << name;
    EXPECT_TRUE(family.vectors || !family.config.empty()) << family.name << " has no size to show memory of";
  }
}

TEST(ModelFamilies, EveryRowsSizeIsAModel) {
  for (const ModelFamily& family : model_families()) {
    if (family.config.empty()) continue;
    const auto config = parse_config_json(family.config, std::nullopt);
    ASSERT_TRUE(config) << family.name << ": " << config.error().message();
    EXPECT_EQ(family_of(*config), &family) << family.name;
    const auto decoder = describe_decoder(*config);
    EXPECT_TRUE(decoder) << family.name << ": " << decoder.error().message();
  }
}

}  // namespace
}  // namespace pagoda
