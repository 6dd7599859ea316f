#include "server/routes.h"

#include <gtest/gtest.h>

#include "page/page_files.h"
#include "server/protocols.h"

namespace pagoda {
namespace {

const RouteTable& table() {
  static const RouteTable made(all_routes(all_protocols()));
  return made;
}

TEST(Routes, MatchExactlyOrNotAtAll) {
  EXPECT_EQ(table().find("GET", "/health").path, "/health");
  EXPECT_EQ(table().find("HEAD", "/health").route, table().find("GET", "/health").route);
  const RouteTable::Match model = table().find("GET", "/v1/models/a/b");
  EXPECT_EQ(model.path, "/v1/models/{model}");
  EXPECT_EQ(model.rest, "a/b");
  for (const char* path :
       {"/health/",   "//health",   "/Health",   "/HEALTH",    "/./health",   "/x/../health",
        "/health%20", "/%68ealth",  "/health;x", "/health/.",  "/v1/model",   "/V1/models",
        "",           "//",         "/ui/",      "/ui/x",      "/index.html", "*",
        "none",       "/debug/kv/", "//metrics", "/v1//health"}) {
    EXPECT_EQ(table().find("GET", path).route, nullptr) << path;
    EXPECT_EQ(table().find("GET", path).allow, "") << path;
    EXPECT_EQ(table().find("GET", path).path, "none") << path;
  }
}

// A client of a protocol reads in its form what is not there, too.
TEST(Routes, ThatAreNotThereAreAnsweredInTheFormOfTheNearest) {
  for (const auto& [path, name] : std::initializer_list<std::pair<const char*, std::string_view>>{
           {"/api/push", "ollama"},
           {"/api/blobs/sha256:1", "ollama"},
           {"/api/v1/models/download", "lmstudio"},
           {"/v1/messages/batches", "anthropic"},
           {"/v1/audio/transcriptions", "openai"},
           {"/v1/responses/a/b/c", "responses"}}) {
    const RouteTable::Match match = table().find("POST", path);
    ASSERT_NE(match.protocol, nullptr) << path;
    EXPECT_EQ(match.protocol->name, name) << path;
  }
  EXPECT_EQ(table().find("POST", "/nowhere").protocol, nullptr);
  EXPECT_EQ(table().find("POST", "").protocol, nullptr);
}

TEST(Routes, AreServedWithAndWithoutTheVersion) {
  for (const auto& [path, known] : std::initializer_list<std::pair<const char*, const char*>>{
           {"/chat/completions", "/v1/chat/completions"},
           {"/models", "/v1/models"},
           {"/responses", "/v1/responses"},
           {"/embeddings", "/v1/embeddings"},
           {"/messages/count_tokens", "/v1/messages/count_tokens"},
           {"/v1/v1/messages", "/v1/messages"},
           {"/v1/api/chat", "/api/chat"},
           {"/v1/health", "/health"},
           {"/v1/tokenize", "/tokenize"}})
    EXPECT_EQ(table().find("POST", path).path, known);
  EXPECT_EQ(table().find("GET", "/models/a/b").rest, "a/b");
  EXPECT_EQ(table().find("GET", "/v1/v1/models/a/b").rest, "a/b");
  EXPECT_EQ(table().find("GET", "/v1/debug/kv").role, Role::admin);
  for (const char* path : {"/v1", "/v1/", "/v1/v1/v1/models", "/v1health", "v1/models", "/v1//health"})
    EXPECT_EQ(table().find("GET", path).allow, "") << path;
}

// A base URL that ends in a slash, a client that adds one. Not where another role than user is needed.
TEST(Routes, ForUsersAreServedWithSpareSlashes) {
  for (const auto& [path, known] : std::initializer_list<std::pair<const char*, const char*>>{
           {"/v1/completions/", "/v1/completions"},
           {"//v1/completions", "/v1/completions"},
           {"/v1//chat/completions", "/v1/chat/completions"},
           {"/v1/v1//chat/completions//", "/v1/chat/completions"},
           {"/openai//v1/messages", "/v1/messages"},
           {"/api/chat/", "/api/chat"}})
    EXPECT_EQ(table().find("POST", path).path, known) << path;
  EXPECT_EQ(table().find("GET", "/v1//models/a/b/").rest, "a/b");
}

TEST(Routes, AreServedBelowThePrefixesOfOtherServices) {
  for (const auto& [path, known] : std::initializer_list<std::pair<const char*, const char*>>{
           {"/openai/v1/chat/completions", "/v1/chat/completions"},
           {"/openai/v1/responses", "/v1/responses"},
           {"/api/v1/chat/completions", "/v1/chat/completions"},
           {"/api/v0/completions", "/v1/completions"},
           {"/api/v0/embeddings", "/v1/embeddings"}})
    EXPECT_EQ(table().find("POST", path).path, known);
  EXPECT_EQ(table().find("GET", "/openai/v1/models/a/b").rest, "a/b");
  EXPECT_EQ(table().find("GET", "/api/v1/models").path, "/api/v1/models") << "LM Studio's own";
  for (const char* path : {"/api/v1/chat", "/api/v1", "/api/v1/", "/openai/v1chat/completions",
                           "/openai/chat", "/api/v0/health", "/openai/v1/debug/kv", "/api/v2/completions"})
    EXPECT_EQ(table().find("POST", path).allow, "") << path;
}

TEST(Routes, OnlyHealthAndThePagesFilesAreOpen) {
  for (const Route& route : all_routes(all_protocols())) {
    const bool open = table().find(route.facts.method, route.facts.path).role == Role::anyone;
    const bool of_page = route.facts.method == "GET" && find_page_file(route.facts.path) != nullptr;
    EXPECT_EQ(open, of_page || route.facts.path == "/health") << route.facts.path;
    EXPECT_FALSE(of_page && route.facts.path.ends_with('}')) << "a file is a path, exactly";
  }
  for (const Route& route : all_routes(all_protocols(), /*page=*/false))
    EXPECT_TRUE(route.facts.method == "POST" || find_page_file(route.facts.path) == nullptr)
        << route.facts.path;
  EXPECT_NE(table().find("GET", "/nowhere").role, Role::anyone);
}

TEST(Routes, WhatIsAllowedFollowsFromTheRows) {
  EXPECT_EQ(table().find("PUT", "/ping").allow, "GET, HEAD, POST, OPTIONS");
  EXPECT_EQ(table().find("GET", "/v1/completions").allow, "POST, OPTIONS");
  EXPECT_EQ(table().find("GET", "/v1/completions").route, nullptr);
  EXPECT_EQ(table().find("POST", "/admin/prefixes/x").allow, "DELETE, OPTIONS");
}

TEST(RoutesDeathTest, ARowStandsOnce) {
  std::vector<Route> routes = all_routes(all_protocols());
  routes.push_back(routes.front());
  EXPECT_DEATH(RouteTable{routes}, "");
}

TEST(Routes, BelowTheRootOfAProxy) {
  EXPECT_EQ(below_root("/m/v1/models", "/m"), "/v1/models");
  EXPECT_EQ(below_root("/v1/models", "/m"), "/v1/models");
  EXPECT_EQ(below_root("/models", "/m"), "/models");
  EXPECT_EQ(below_root("/m", "/m"), "/");
  EXPECT_EQ(below_root("/m/x", ""), "/m/x");
}

}  // namespace
}  // namespace pagoda
