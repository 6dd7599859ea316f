#include "server/keys/key_store.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "server/keys/key_policy.h"

namespace pagoda {
namespace {

class KeyStoreTest : public ::testing::Test {
 protected:
  void write(const std::string& text) { std::ofstream(path_) << text; }
  void TearDown() override { std::filesystem::remove(path_); }

  const std::string path_ = ::testing::TempDir() + "pagoda_key_store.yaml";
  MetricsRegistry registry_;
  SteadyClock clock_;
  KeyStore keys_{registry_, clock_};
};

TEST_F(KeyStoreTest, AnyOfTheKeysAndNothingElse) {
  ASSERT_TRUE(keys_.load({"one", "two"}, "").ok());
  EXPECT_TRUE(keys_.required());
  EXPECT_EQ(keys_.find("one")->entry.name, "api-key-1");
  EXPECT_EQ(keys_.find("two")->entry.name, "api-key-2");
  EXPECT_EQ(keys_.find("two")->entry.role, Role::user);
  for (const char* bad : {"", "on", "onee", " one", "One", "three"})
    EXPECT_EQ(keys_.find(bad), nullptr) << bad;
}

TEST_F(KeyStoreTest, WithoutKeysEverybodyIsTheSameAdministrator) {
  ASSERT_TRUE(keys_.load({}, "").ok());
  EXPECT_FALSE(keys_.required());
  EXPECT_EQ(keys_.find("whatever")->entry.role, Role::admin);
}

TEST_F(KeyStoreTest, ASingleKeyOfTheCommandLineIsAnAdministrators) {
  ASSERT_TRUE(keys_.load({"one"}, "").ok());
  EXPECT_EQ(keys_.find("one")->entry.role, Role::admin);
  EXPECT_FALSE(keys_.several_tenants());
}

TEST_F(KeyStoreTest, ABrokenFileChangesNothing) {
  write("keys: [{name: a, key: x}]");
  ASSERT_TRUE(keys_.load({}, path_).ok());
  const auto a = keys_.find("x");
  ASSERT_NE(a, nullptr);
  write("keys: [{name: a, key: y}, {nonsense");
  EXPECT_FALSE(keys_.reload());
  EXPECT_EQ(keys_.find("x"), a);
  EXPECT_EQ(keys_.find("y"), nullptr);
  std::filesystem::remove(path_);
  EXPECT_FALSE(keys_.reload());
  EXPECT_EQ(keys_.find("x"), a);
}

TEST_F(KeyStoreTest, AReloadKeepsWhatANameHasUsed) {
  write("keys: [{name: a, key: x, requests_per_minute: 2}]");
  ASSERT_TRUE(keys_.load({}, path_).ok());
  const auto before = keys_.find("x");
  before->account->usage.add_tokens({.prompt = 5, .cached = 1, .completion = 2});
  EXPECT_FALSE(before->account->limit.take_request(clock_.now()));
  EXPECT_FALSE(before->account->limit.take_request(clock_.now()));
  write("keys: [{name: a, key: y, requests_per_minute: 2}, {name: b, key: z}]");
  ASSERT_TRUE(keys_.reload());
  EXPECT_EQ(keys_.find("x"), nullptr);
  const auto after = keys_.find("y");
  ASSERT_NE(after, nullptr);
  EXPECT_EQ(after->account, before->account);
  EXPECT_EQ(after->account->usage.totals().tokens.prompt, 5);
  EXPECT_TRUE(after->account->limit.take_request(clock_.now()));
  EXPECT_TRUE(keys_.several_tenants());
}

TEST_F(KeyStoreTest, AReloadTellsWhoIsGone) {
  write("keys: [{name: a, key: x}, {name: b, key: y}, {name: c, key: z}]");
  ASSERT_TRUE(keys_.load({}, path_).ok());
  write("keys: [{name: b, key: new}, {name: d, key: x}]");
  const auto gone = keys_.reload();
  ASSERT_TRUE(gone);
  EXPECT_EQ(*gone, (std::vector<std::string>{"a", "c"})) << "a new key of a name is the same tenant";
}

TEST_F(KeyStoreTest, AChangeIsSeenOnceTheFileIsAtRest) {
  write("keys: [{name: a, key: x}]");
  ASSERT_TRUE(keys_.load({}, path_).ok());
  EXPECT_FALSE(keys_.file_has_changed());
  write("keys: [{name: a, key: longer}]");
  EXPECT_FALSE(keys_.file_has_changed());  // it may still be written
  EXPECT_TRUE(keys_.file_has_changed());
  ASSERT_TRUE(keys_.reload());
  EXPECT_FALSE(keys_.file_has_changed());
  std::filesystem::remove(path_);
  EXPECT_FALSE(keys_.file_has_changed());
  EXPECT_TRUE(keys_.file_has_changed());
  EXPECT_FALSE(keys_.reload());
  EXPECT_FALSE(keys_.file_has_changed());  // told once
}

TEST_F(KeyStoreTest, NamesOfTheCommandLineAreNotTheFiles) {
  write("keys: [{name: api-key-1, key: x}]");
  EXPECT_FALSE(keys_.load({"one"}, path_).ok());
}

TEST(KeyOf, BearerFirst) {
  EXPECT_EQ(key_of("Bearer one", "two"), "one");
  EXPECT_EQ(key_of("bearer one", ""), "one");
  EXPECT_EQ(key_of("", "two"), "two");
  EXPECT_EQ(key_of("Basic one", "two"), "");
  EXPECT_EQ(key_of("Bearer", ""), "");
  EXPECT_EQ(key_of("Bearer ", ""), "");
}

TEST(KeyRoles, WhatEachMayUse) {
  EXPECT_TRUE(may_use(Role::user, Role::user));
  EXPECT_TRUE(may_use(Role::user, Role::anyone));
  EXPECT_FALSE(may_use(Role::user, Role::admin));
  EXPECT_FALSE(may_use(Role::user, Role::metrics));
  EXPECT_TRUE(may_use(Role::metrics, Role::metrics));
  EXPECT_FALSE(may_use(Role::metrics, Role::user));
  for (const Role role : {Role::anyone, Role::user, Role::metrics, Role::admin})
    EXPECT_TRUE(may_use(Role::admin, role));
}

TEST_F(KeyStoreTest, RequestsGetTheirKeysTenantAndSalt) {
  write("keys: [{name: a, key: x, weight: 3}, {name: b, key: y, max_priority: -1}]");
  ASSERT_TRUE(keys_.load({}, path_).ok());
  std::vector<Request> requests(2);
  requests[1].cache_salt = "s";
  ASSERT_TRUE(apply_key(*keys_.find("x"), "1.2.3.4", true, requests).ok());
  EXPECT_EQ(requests[0].tenant, "a");
  EXPECT_EQ(requests[0].weight, 3);
  EXPECT_EQ(requests[0].cache_salt, "a/");
  EXPECT_EQ(requests[1].cache_salt, "a/s");
  std::vector<Request> others(1);
  others[0].cache_salt = "a/";
  others[0].priority = -1;
  ASSERT_TRUE(apply_key(*keys_.find("y"), "1.2.3.4", true, others).ok());
  EXPECT_EQ(others[0].cache_salt, "b/a/");
  others[0].priority = -2;
  EXPECT_FALSE(apply_key(*keys_.find("y"), "1.2.3.4", true, others).ok());
  std::vector<Request> open(1);
  open[0].cache_salt = "s";
  KeyStore none(registry_, clock_);
  ASSERT_TRUE(apply_key(*none.find(""), "1.2.3.4", false, open).ok());
  EXPECT_EQ(open[0].tenant, "1.2.3.4");
  EXPECT_EQ(open[0].cache_salt, "s");
}

TEST(TokensNeeded, PromptsAndAllTheirAnswers) {
  std::vector<Request> requests(2);
  requests[0].prompt_token_ids.resize(10);
  requests[0].sampling.n = 2;
  requests[0].sampling.best_of = 3;
  requests[0].sampling.max_tokens = 100;
  requests[1].prompt_token_ids.resize(5);
  requests[1].work.kind = WorkKind::embed;
  const TokenNeed need = tokens_needed(requests);
  EXPECT_EQ(need.prompts, 15);
  EXPECT_EQ(need.all, 315);
}

}  // namespace
}  // namespace pagoda
