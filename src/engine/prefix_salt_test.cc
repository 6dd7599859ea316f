// The salt of a prefix: what its K/V depend on beside tokens.

#include <gtest/gtest.h>

#include <map>

#include "request/sequence.h"

namespace pagoda {
namespace {

// Goal: K/V are shared among equal rotations, adapters and salts alone. Method: texts made of the marks that
// the salt of a prefix is written with, in every place where a text can stand.
TEST(SequenceGroup, NoTwoKindsOfKvHaveOneSalt) {
  std::vector<std::string> texts = {""};
  const std::vector<std::string> pieces = {"\1",
                                           "\2",
                                           "0",
                                           "1",
                                           "a",
                                           "\1"
                                           "0\1",
                                           "\1"
                                           "0\2"
                                           "1\2a\1"};
  for (int length = 0; length < 2; ++length)
    for (const std::string& text : std::vector<std::string>(texts))
      for (const std::string& piece : pieces) texts.push_back(text + piece);
  std::map<std::string, std::string> seen;
  const auto expect_new = [&](const SequenceGroup& group, const std::string& what) {
    const auto [place, is_new] = seen.emplace(group.prefix_salt(), what);
    EXPECT_TRUE(is_new || place->second == what) << what << " and " << place->second;
    EXPECT_TRUE(group.prefix_salt().starts_with(group.kv_variant()));
  };
  for (const std::string& salt : texts) {
    for (const std::int32_t rotation : {0, 1, 10}) {
      SequenceGroup group;
      group.rotation = rotation;
      group.request.cache_salt = salt;
      expect_new(group, concat("rotation ", rotation, ", salt '", salt, "'"));
      for (const std::string& identity : texts) {
        auto adapter = std::make_shared<RequestAdapter>();
        adapter->identity = identity;
        group.request.adapter = adapter;
        expect_new(group, concat("rotation ", rotation, ", salt '", salt, "', adapter '", identity, "'"));
      }
    }
  }
  SequenceGroup plain;
  plain.request.cache_salt = "mine";
  EXPECT_EQ(plain.prefix_salt(), "mine");
  EXPECT_EQ(plain.kv_variant(), "");
}

}  // namespace
}  // namespace pagoda
