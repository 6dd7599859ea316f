// Keys over HTTP.
#include <fstream>

#include "server/running_server.h"

namespace pagoda {
namespace {

class KeysOverHttp : public ::testing::Test {
 protected:
  static ServerConfig with_file(const std::string& text) {
    ServerConfig config;
    config.api_key_file = ::testing::TempDir() + "pagoda_keys_http.yaml";
    std::ofstream(config.api_key_file) << text;
    return config;
  }
};

constexpr std::string_view kAlice = "Authorization: Bearer alices\r\n";
constexpr std::string_view kBob = "Authorization: Bearer bobs\r\n";
constexpr std::string_view kOps = "Authorization: Bearer opss\r\n";
constexpr std::string_view kProm = "Authorization: Bearer proms\r\n";
constexpr const char* kFour = R"(keys:
- {name: alice, key: alices, weight: 2}
- {name: bob, key: bobs}
- {name: ops, key: opss, role: admin}
- {name: prom, key: proms, role: metrics}
)";

TEST_F(KeysOverHttp, RolesByRoute) {
  RunningServer running(with_file(kFour));
  struct Row {
    const char* path;
    int user, metrics, admin;
  };
  for (const Row& row :
       {Row{"/health", 200, 200, 200}, Row{"/v1/models", 200, 403, 200}, Row{"/metrics", 403, 200, 200},
        Row{"/admin/prefixes", 403, 403, 200}, Row{"/admin/usage", 403, 403, 200},
        Row{"/debug/requests/x", 403, 403, 503}, Row{"/nothing", 404, 403, 404}}) {
    TestClient client(running.port());
    EXPECT_EQ(client.get(row.path, kAlice).status, row.user) << row.path;
    EXPECT_EQ(client.get(row.path, kProm).status, row.metrics) << row.path;
    if (row.admin != 503) {
      EXPECT_EQ(client.get(row.path, kOps).status, row.admin) << row.path;
    }
  }
  TestClient client(running.port());
  const TestResponse refused = client.get("/admin/usage", kAlice);
  EXPECT_NE(refused.body.find("insufficient_permissions"), std::string::npos);
  EXPECT_NE(refused.body.find("role admin"), std::string::npos);
  EXPECT_EQ(client.get("/v1/models", "x-api-key: alices\r\n").status, 200);
}

TEST_F(KeysOverHttp, UsageIsWhatTheClientsWereTold) {
  RunningServer running(with_file(kFour));
  TestClient client(running.port());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(client.post("/v1/completions", kPrompt, kAlice).status, 200);
  EXPECT_EQ(client.post("/v1/completions", kStream, kBob).status, 200);
  EXPECT_EQ(client.post("/v1/completions", R"({"prompt":3})", kBob).status, 400);
  const auto usage = parse_json(client.get("/admin/usage", kOps).body);
  ASSERT_TRUE(usage.has_value());
  const auto& alice = usage->at("alice").as_object();
  EXPECT_EQ(alice.at("prompt_tokens"), 9);
  EXPECT_EQ(alice.at("completion_tokens"), 12);
  EXPECT_EQ(alice.at("requests"), 3);
  EXPECT_EQ(alice.at("errors"), 0);
  const auto& bob = usage->at("bob").as_object();
  EXPECT_EQ(bob.at("prompt_tokens"), 3);
  EXPECT_EQ(bob.at("completion_tokens"), 4);
  EXPECT_EQ(bob.at("requests"), 2);
  EXPECT_EQ(bob.at("errors"), 1);
  const std::string metrics = client.get("/metrics", kProm).body;
  EXPECT_NE(metrics.find("pagoda:key_completion_tokens_total{model_name=\"tiny\",key=\"alice\"} 12"),
            std::string::npos)
      << metrics.substr(metrics.find("pagoda:key_completion_tokens_total"), 300);
}

TEST_F(KeysOverHttp, AHungUpCallCountsWhatItWasBrought) {
  RunningServer running(with_file(kFour));
  running.engine.pause_ms = 2;
  TestClient client(running.port());
  client.send_post("/v1/completions", kLongStream, kAlice);
  ASSERT_TRUE(client.wait_for("data: "));
  client.close();
  ASSERT_TRUE(eventually([&] { return running.engine.num_running() == 0; }));
  TestClient other(running.port());
  std::int64_t tokens = 0;
  EXPECT_TRUE(eventually([&] {
    const auto usage = parse_json(other.get("/admin/usage", kOps).body);
    tokens = usage->at("alice").at("completion_tokens").as_int64();
    return tokens > 0;
  }));
  EXPECT_LT(tokens, 4000);
}

TEST_F(KeysOverHttp, RequestsPerMinute) {
  RunningServer running(with_file("keys: [{name: alice, key: alices, requests_per_minute: 2}]"));
  TestClient client(running.port());
  const TestResponse first = client.post("/v1/completions", kPrompt, kAlice);
  EXPECT_EQ(first.status, 200);
  EXPECT_EQ(first.headers.at("x-ratelimit-limit-requests"), "2");
  EXPECT_EQ(first.headers.at("x-ratelimit-remaining-requests"), "1");
  EXPECT_FALSE(first.headers.contains("x-ratelimit-limit-tokens"));
  EXPECT_EQ(client.get("/v1/models", kAlice).status, 200);  // costs nothing
  EXPECT_EQ(client.post("/v1/completions", kStream, kAlice).headers.at("x-ratelimit-remaining-requests"),
            "0");
  const TestResponse third = client.post("/v1/completions", kPrompt, kAlice);
  EXPECT_EQ(third.status, 429);
  EXPECT_EQ(third.headers.at("retry-after"), "30");
  EXPECT_NE(third.body.find("rate_limit_exceeded"), std::string::npos) << third.body;
  EXPECT_EQ(third.headers.at("x-ratelimit-remaining-requests"), "0");
}

TEST_F(KeysOverHttp, TokensPerMinute) {
  RunningServer running(with_file("keys: [{name: alice, key: alices, tokens_per_minute: 20}]"));
  TestClient client(running.port());
  EXPECT_EQ(client.post("/v1/completions", kPrompt, kAlice).status, 200);  // 3 + 4
  EXPECT_EQ(client.post("/v1/completions", kPrompt, kAlice).status, 200);
  const TestResponse third = client.post("/v1/completions", kPrompt, kAlice);
  EXPECT_EQ(third.status, 429);
  EXPECT_EQ(third.headers.at("x-ratelimit-limit-tokens"), "20");
  EXPECT_NE(third.body.find("tokens per minute"), std::string::npos);
  const std::string long_prompt(40, 'a');
  const TestResponse never = client.post(
      "/v1/completions", concat(R"({"prompt":")", long_prompt, R"(","add_special_tokens":false})"), kAlice);
  EXPECT_EQ(never.status, 429);
  EXPECT_FALSE(never.headers.contains("retry-after"));
}

TEST_F(KeysOverHttp, PriorityAndLengthOfAKey) {
  RunningServer running(with_file("keys: [{name: alice, key: alices, max_model_len: 10, max_priority: 3}]"));
  TestClient client(running.port());
  const auto ask = [&](const char* more) {
    return client.post("/v1/completions", concat(R"({"prompt":"abc","add_special_tokens":false,)", more, "}"),
                       kAlice);
  };
  EXPECT_EQ(ask(R"("max_tokens":7,"priority":3)").status, 200);
  const TestResponse early = ask(R"("max_tokens":7,"priority":2)");
  EXPECT_EQ(early.status, 400);
  EXPECT_NE(early.body.find("\"priority\""), std::string::npos);
  const TestResponse longer = ask(R"("max_tokens":8,"priority":3)");
  EXPECT_EQ(longer.status, 400);
  EXPECT_NE(longer.body.find("context_length_exceeded"), std::string::npos) << longer.body;
}

TEST_F(KeysOverHttp, TheFileIsReadAgainWhenItChanges) {
  const ServerConfig config = with_file("keys: [{name: alice, key: alices}]");
  RunningServer running(config);
  TestClient client(running.port());
  EXPECT_EQ(client.get("/v1/models", kBob).status, 401);
  std::ofstream(config.api_key_file) << "keys: [{name: bob, key: bobs}]";
  EXPECT_TRUE(eventually([&] { return client.get("/v1/models", kBob).status == 200; }));
  EXPECT_EQ(client.get("/v1/models", kAlice).status, 401);
}

}  // namespace
}  // namespace pagoda
