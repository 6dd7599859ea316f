#include "server/keys/key_file.h"

#include <gtest/gtest.h>

namespace pagoda {
namespace {

constexpr const char* kHash =
    "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";  // SHA-256 of "secret"

TEST(KeyFile, EveryField) {
  const auto keys = parse_key_file(std::string(R"(keys:
  - name: alice
    key: open-sesame
    weight: 3
    requests_per_minute: 60
    tokens_per_minute: 10000
    max_priority: -5
    max_model_len: 512
  - name: ops.team-1
    sha256: )") + kHash + R"(
    role: admin
  - {name: prom, key: [one, two], role: metrics}
)",
                                   "f");
  ASSERT_TRUE(keys.has_value()) << keys.error().message();
  ASSERT_EQ(keys->size(), 3u);
  const KeyEntry& alice = (*keys)[0];
  EXPECT_EQ(alice.name, "alice");
  EXPECT_EQ(alice.role, Role::user);
  EXPECT_EQ(alice.weight, 3);
  EXPECT_EQ(alice.requests_per_minute, 60);
  EXPECT_EQ(alice.tokens_per_minute, 10000);
  EXPECT_EQ(alice.max_priority, -5);
  EXPECT_EQ(alice.max_model_len, 512);
  EXPECT_EQ(alice.digests, std::vector<KeyDigest>{digest_of_key("open-sesame")});
  const KeyEntry& ops = (*keys)[1];
  EXPECT_EQ(ops.role, Role::admin);
  EXPECT_FALSE(ops.max_priority);
  EXPECT_EQ(hex_of(ops.digests.front()), kHash);
  EXPECT_EQ(ops.digests.front(), digest_of_key("secret"));
  EXPECT_EQ((*keys)[2].role, Role::metrics);
  EXPECT_EQ((*keys)[2].digests.size(), 2u);
}

TEST(KeyFile, AUsersPriorityIsTheOrdinaryOneUnlessTheFileSaysMore) {
  const auto keys = parse_key_file("keys: [{name: a, key: x}]", "f");
  ASSERT_TRUE(keys.has_value());
  EXPECT_EQ(keys->front().max_priority, 0);
}

TEST(KeyFile, WhatIsWrongIsToldWithItsLineAndWithoutTheKey) {
  struct Row {
    const char* text;
    const char* said;
  };
  for (const Row& row : {
           Row{"", "keys"},
           Row{"[]", "keys"},
           Row{"keys:", "must be a list"},
           Row{"keys: []", "must be a list"},
           Row{"keys: 3", "must be a list"},
           Row{"clefs: []", "the file has one list, `keys:`"},
           Row{"keys: [{name: a, key: SECRET}]\nkeys: [{name: b, key: c}]", "given twice"},
           Row{"keys: [SECRET]", "mapping"},
           Row{"keys: [{key: SECRET}]", "`name` is missing"},
           Row{"keys: [{name: a}]", "neither"},
           Row{"keys: [{name: a, key: ''}]", "`key`"},
           Row{"keys: [{name: a, key: 'SEC RET'}]", "`key`"},
           Row{"keys: [{name: a, key: {SECRET: 1}}]", "a value or a list of values"},
           Row{"keys: [{name: a, sha256: SECRET}]", "64 hexadecimal"},
           Row{"keys: [{name: a/b, key: SECRET}]", "`name` must have 1 to 64"},
           Row{"keys: [{name: '', key: SECRET}]", "`name` must have 1 to 64"},
           Row{"keys: [{name: anonymous, key: SECRET}]", "reserved"},
           Row{"keys: [{name: a, key: SECRET, role: root}]", "`role`"},
           Row{"keys: [{name: a, key: SECRET, role: anyone}]", "`role`"},
           Row{"keys: [{name: a, key: SECRET, weight: 0}]", "`weight`"},
           Row{"keys: [{name: a, key: SECRET, weight: 1.5}]", "`weight`"},
           Row{"keys: [{name: a, key: SECRET, tokens_per_minute: -1}]", "`tokens_per_minute`"},
           Row{"keys: [{name: a, key: SECRET, requests_per_minute: 1e99}]", "`requests_per_minute`"},
           Row{"keys: [{name: a, key: SECRET, max_priority: 3000000000}]", "`max_priority`"},
           Row{"keys: [{name: a, key: SECRET, color: red}]", "unknown field"},
           Row{"keys: [{name: a, key: SECRET, key: x}]", "twice"},
           Row{"keys:\n- {name: a, key: SECRET}\n- {name: a, key: x}", "two entries have the name 'a'"},
           Row{"keys:\n- {name: a, key: SECRET}\n- {name: b, key: SECRET}", "the same key as another entry"},
           Row{"keys: [{name: a, key: SECRET", "not valid YAML"},
           Row{"keys:\n- name: a\n  key: *SECRET", "not valid YAML"},
       }) {
    const auto keys = parse_key_file(row.text, "file.yaml");
    ASSERT_FALSE(keys.has_value()) << row.text;
    const std::string& message = keys.error().message();
    EXPECT_NE(message.find(row.said), std::string::npos) << row.text << " -> " << message;
    EXPECT_TRUE(message.starts_with("file.yaml:")) << message;
    EXPECT_EQ(message.find("SECRET"), std::string::npos) << message;
  }
  const auto second = parse_key_file("keys:\n- {name: a, key: x}\n- {name: b}", "f");
  EXPECT_TRUE(second.error().message().starts_with("f:3:")) << second.error().message();
  EXPECT_FALSE(parse_key_file(std::string(2 << 20, ' '), "f").has_value());
}

TEST(KeyFile, AnEntryIsAddedAndTheRestStaysAsItWas) {
  KeyEntry entry;
  entry.name = "new";
  entry.digests = {digest_of_key("k")};
  entry.role = Role::admin;
  for (const std::string& before : {std::string(), std::string("# ours\nkeys:\n- name: a # first\n  key: x"),
                                    std::string("keys:\n    - name: a\n      key: x\n\n")}) {
    const auto after = with_new_key(before, "f", entry);
    ASSERT_TRUE(after.has_value()) << before << after.error().message();
    EXPECT_TRUE(after->starts_with(before));
    const auto keys = parse_key_file(*after, "f");
    ASSERT_TRUE(keys.has_value());
    EXPECT_EQ(keys->back().name, "new");
    EXPECT_EQ(keys->back().role, Role::admin);
    EXPECT_EQ(keys->back().digests, entry.digests);
    EXPECT_FALSE(with_new_key(*after, "f", entry).has_value());  // the name is taken
  }
  EXPECT_FALSE(with_new_key("keys: [{name: a, key: x}]", "f", entry).has_value());
  EXPECT_FALSE(with_new_key("nonsense", "f", entry).has_value());
}

}  // namespace
}  // namespace pagoda
