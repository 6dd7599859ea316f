// The server over loopback: what it refuses, with which status, and what happens to the connection.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

#include "server/running_server.h"

namespace pagoda {
namespace {

using std::chrono::milliseconds;

TEST(ServerRefusal, PrefixesNeedTheKey) {
  ServerConfig config;
  config.api_keys = {"secret"};
  RunningServer running(config);
  TestClient client(running.port());
  EXPECT_EQ(client.get("/admin/prefixes").status, 401);
  client.send("DELETE /admin/prefixes/a HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(client.read_response().status, 401);
  EXPECT_EQ(client.get("/admin/prefixes", "Authorization: Bearer secret\r\n").status, 200);
  TestClient other(running.port());
  EXPECT_EQ(other.post("/admin/prefixes", R"({"name":"a","text":"x"})").status, 401);
  EXPECT_TRUE(running.engine.list_prefixes().empty());
}

TEST(ServerRefusal, BadBodiesGetTheirStatusAndKeepTheConnection) {
  RunningServer running;
  struct Row {
    const char* path;
    std::string body;
    int status;
    const char* param;
  };
  const Row table[] = {
      {"/v1/completions", "", 400, nullptr},
      {"/v1/completions", "{", 400, nullptr},
      {"/v1/completions", "\"x\"", 400, nullptr},
      {"/v1/completions", "{\"prompt\":\"\xff\"}", 400, nullptr},
      {"/v1/completions", "{}", 400, "prompt"},
      {"/v1/completions", R"({"prompt":"a","model":"x"})", 404, "model"},
      {"/v1/completions", R"({"prompt":"a","n":0})", 400, "n"},
      {"/v1/completions", R"({"prompt":"a","suffix":"x"})", 400, "suffix"},
      {"/v1/completions", R"({"prompt":"a","max_tokens":5000})", 400, "prompt"},
      {"/v1/chat/completions", "{}", 400, "messages"},
      {"/v1/chat/completions", R"({"messages":[{"role":"user"}]})", 400, "messages.0.content"},
      {"/v1/chat/completions", R"({"messages":[{"role":"user","content":"x"}],"tool_choice":"required"})",
       400, "tool_choice"},
      {"/tokenize", "{}", 400, "prompt"},
      {"/tokenize", R"({"prompt":5})", 400, "prompt"},
      {"/tokenize", R"({"messages":[]})", 400, "messages"},
      {"/tokenize", R"({"prompt":"a","model":"x"})", 404, "model"},
      {"/tokenize", "[", 400, nullptr},
      {"/tokenize", R"({"prompt":"a","add_special_tokens":3})", 400, "add_special_tokens"},
      {"/detokenize", "{}", 400, "tokens"},
      {"/detokenize", R"({"tokens":"x"})", 400, "tokens"},
      {"/detokenize", R"({"tokens":[999]})", 400, "tokens.0"},
      {"/detokenize", R"({"tokens":[1.5]})", 400, "tokens.0"},
      {"/detokenize", R"({"tokens":[1],"model":"x"})", 404, "model"},
  };
  TestClient client(running.port());
  for (const Row& row : table) {
    const TestResponse response = client.post(row.path, row.body);
    EXPECT_EQ(response.status, row.status) << row.path << row.body;
    const auto body = parse_json(response.body);
    ASSERT_TRUE(body.has_value()) << response.body;
    const auto& param = body->at("error").at("param");
    if (row.param != nullptr)
      EXPECT_EQ(param, row.param) << row.body;
    else
      EXPECT_TRUE(param.is_null()) << row.body;
  }
  EXPECT_EQ(client.get("/health").status, 200);
}

// Each breaks the framing, so the connection ends with the answer: nothing after it may be read as a request.
TEST(ServerRefusal, SmugglingFormsAreRefusedAndTheConnectionEnds) {
  RunningServer running;
  const std::string json = "Host: localhost\r\nContent-Type: application/json\r\n";
  const auto post = [&](std::string_view headers, std::string_view body) {
    return concat("POST /v1/completions HTTP/1.1\r\n", json, headers, "\r\n", body);
  };
  const Exchange table[] = {
      {post("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), 400},
      {post("Content-Length: 0\r\nContent-Length: 9\r\n", "GET /x"), 400},
      {post("Transfer-Encoding: chunked\r\n", "zz\r\nabc\r\n0\r\n\r\n"), 400},
      {post("Transfer-Encoding: chunked\r\n", "-1\r\n\r\n0\r\n\r\n"), 400},
      {post("Transfer-Encoding: chunked\r\n", "3\r\nabcd\r\n0\r\n\r\n"), 400},
      {post("Transfer-Encoding: chunked\r\n", "ffffffffffffffffff\r\nabc\r\n0\r\n\r\n"), 400},
      {post("Transfer-Encoding: chunked\r\n", "3;\x01=\r\nabc\r\n0\r\n\r\n"), 400},
      {post("X: a\r\n b\r\n", ""), 400},
      {post("X : a\r\n", ""), 400},
      {"GET /health HTTP/1.1\nHost: localhost\n\n", 400},
      {"GET http://evil/health HTTP/1.1\r\nHost: localhost\r\n\r\n", 400},
      {"GET /health HTTP/1.1\r\nHost: a\r\nHost: localhost\r\n\r\n", 400},
      {concat("GET /", std::string(10'000, 'a'), " HTTP/1.1\r\nHost: localhost\r\n\r\n"), 414},
      {concat("GET / HTTP/1.1\r\nHost: localhost\r\nX: ", std::string(70'000, 'a'), "\r\n\r\n"), 431},
      {post(concat("Content-Length: ", std::size_t{33} << 20, "\r\n"), ""), 413},
      {"\x16\x03\x01\x02\x00\x01", 400},
  };
  for (const Exchange& row : table) {
    TestClient client(running.port());
    client.send(row.request);
    TestResponse response = client.read_response();
    EXPECT_EQ(response.status, row.status) << row.request.substr(0, 200);
    EXPECT_EQ(response.headers["connection"], "close");
    client.finish_sending();
    EXPECT_TRUE(client.closed_by_peer()) << row.request.substr(0, 200);
  }
}

TEST(ServerRefusal, AChunkedBodyOverTheLimitOrMadeOfCrumbsIsRefused) {
  ServerConfig config;
  config.max_body_bytes = 200'000;
  RunningServer running(config);
  const std::string head =
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
      "application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
  std::string crumbs;
  for (int i = 0; i < 100'000; ++i) crumbs += "1\r\na\r\n";
  std::string large;
  for (int i = 0; i < 30; ++i) large += "2710\r\n" + std::string(10'000, 'a') + "\r\n";
  for (const std::string& body : {crumbs, large}) {
    TestClient client(running.port());
    client.send(head);
    client.send(body);
    EXPECT_EQ(client.read_response().status, 413);
  }
}

TEST(ServerRefusal, AllBodiesTogetherAreBounded) {
  ServerConfig config;
  config.max_bodies_bytes = config.max_body_bytes = 100'000;
  RunningServer running(config);
  const std::string text(90'000, 'a');
  const std::string head =
      "POST /detokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
      "90001\r\n\r\n";
  std::optional<TestClient> first;
  ASSERT_TRUE(eventually([&] {  // again where the second was read before the first
    first.emplace(running.port());
    first->send(head + text);  // one byte short: it stays and holds what it has
    TestClient second(running.port());
    second.send(head + text + "a");
    return second.read_response().status == 503;
  }));
  first->close();
  EXPECT_TRUE(eventually([&] { return TestClient(running.port()).post("/detokenize", text).status == 400; }));
}

TEST(ServerRefusal, OneBodyMayHaveWhatItsOwnLimitSays) {
  ServerConfig config;
  config.max_bodies_bytes = 1000;
  config.max_body_bytes = 200'000;
  config.head_limits.max_head_bytes = std::size_t{1} << 32;
  RunningServer running(config);
  TestClient client(running.port());
  EXPECT_EQ(client.post("/detokenize", concat(R"({"tokens":[97]})", std::string(150'000, ' '))).status, 200);
}

TEST(ServerRefusal, SlowClientsAreTold) {
  ServerConfig config;
  config.head_timeout = config.body_timeout = config.keep_alive_timeout = milliseconds(50);
  RunningServer running(config);
  TestClient head(running.port());
  head.send("GET /hea");
  EXPECT_EQ(head.read_response().status, 408);
  TestClient body(running.port());
  body.send(
      "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
      "10\r\n\r\n{");
  EXPECT_EQ(body.read_response().status, 408);
  TestClient silent(running.port());
  EXPECT_TRUE(silent.closed_by_peer());
}

TEST(ServerRefusal, KeysGuardAllButHealth) {
  ServerConfig config;
  config.api_keys = {"secret"};
  RunningServer running(config);
  TestClient client(running.port());
  EXPECT_EQ(client.get("/health").status, 200);
  for (const char* path :
       {"/metrics", "/v1/models", "/version", "/ping", "/load", "/nothing", "/health/", "//health", "/HEALTH",
        "/health%2f", "/health/../metrics", "/v1/models/tiny", "/health;/metrics", "/%6detrics"}) {
    const TestResponse response = client.get(path);
    EXPECT_EQ(response.status, 401) << path;
    EXPECT_EQ(response.headers.at("www-authenticate"), "Bearer");
  }
  EXPECT_EQ(client.get("/v1/models", "Authorization: Bearer wrong\r\n").status, 401);
  EXPECT_EQ(client.get("/v1/models", "Authorization: Bearer secret\r\n").status, 200);
  EXPECT_EQ(client.get("/nothing", "Authorization: Bearer secret\r\n").status, 404);
}

TEST(ServerRefusal, AForeignHostNameIsRefusedOnLoopback) {
  RunningServer running;
  TestClient client(running.port());
  client.send("GET /health HTTP/1.1\r\nHost: rebound.example\r\n\r\n");
  EXPECT_EQ(client.read_response().status, 403);
}

TEST(ServerRefusal, AFullQueueIs429WithRetryAfter) {
  RunningServer running;
  running.engine.capacity = 0;
  TestClient client(running.port());
  for (const std::string_view body : {kPrompt, kStream}) {
    const TestResponse response = client.post("/v1/completions", body);
    EXPECT_EQ(response.status, 429);
    EXPECT_EQ(response.headers.at("retry-after"), "1");
  }
  running.engine.capacity = 2;
  running.engine.pause_ms = 1;
  EXPECT_EQ(client.post("/v1/completions", R"({"prompt":["a","b","c"],"max_tokens":4000})").status, 429);
  EXPECT_TRUE(eventually([&] { return running.engine.num_running() == 0; })) << "the first two must not stay";
}

// Neither parsed nor tokenized: what is no JSON at all gets the same, and the connection goes on.
TEST(ServerRefusal, WhoWouldWaitTooLongIsToldUnread) {
  RunningServer running;
  TestClient client(running.port());
  running.engine.refuse_all_of("127.0.0.1");
  for (const char* body : {R"({"prompt":"a"})", "{"}) {
    const TestResponse response = client.post("/v1/completions", body);
    EXPECT_EQ(response.status, 429) << body;
    EXPECT_EQ(response.headers.at("retry-after"), "7");
    EXPECT_NE(response.body.find("queue_time"), std::string::npos) << response.body;
  }
  EXPECT_EQ(client.post("/tokenize", R"({"prompt":"a"})").status, 200) << "which asks nothing of the engine";
  running.engine.refuse_all_of("another");
  EXPECT_EQ(client.post("/v1/completions", R"({"prompt":"a"})").status, 200);
}

// Connections without a request made everyone, /health too, get 503.
TEST(ServerRefusal, IdleConnectionsMakeRoomOldestFirst) {
  ServerConfig config;
  config.max_connections = 2;
  RunningServer running(config);
  TestClient first(running.port()), second(running.port());
  EXPECT_EQ(first.get("/health").status, 200);
  EXPECT_EQ(second.get("/health").status, 200);
  TestClient third(running.port());
  EXPECT_TRUE(first.closed_by_peer());
  EXPECT_EQ(third.get("/v1/models").status, 200);
  EXPECT_EQ(second.get("/v1/models").status, 200);
}

TEST(ServerRefusal, BesideBusyConnectionsOnlyHealthIsAnswered) {
  ServerConfig config;
  config.max_connections = 2;
  RunningServer running(config);
  running.engine.pause_ms = 1;
  TestClient first(running.port()), second(running.port());
  first.send_post("/v1/completions", kLongStream);
  second.send_post("/v1/completions", kLongStream);
  ASSERT_TRUE(eventually([&] { return running.engine.num_running() == 2; }));
  TestClient third(running.port());
  EXPECT_EQ(third.get("/health").status, 200);
  const TestResponse refused = third.get("/v1/models");
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.headers.at("connection"), "close");
  std::vector<std::unique_ptr<TestClient>>
      many;  // more than the reserve holds: the idle ones make room again
  for (int i = 0; i < 30; ++i) many.push_back(std::make_unique<TestClient>(running.port()));
  EXPECT_TRUE(eventually([&] { return TestClient(running.port()).get("/health").status == 200; }));
  first.close();
  EXPECT_TRUE(eventually([&] { return TestClient(running.port()).get("/v1/models").status == 200; }));
}

// Sends `first` of a body and then a byte now and then; the status that it gets.
int status_of_dripping_body(const ServerConfig& config, const std::string& first) {
  RunningServer running(config);
  TestClient drips(running.port());
  drips.send(
      "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
      "1000000\r\n\r\n");
  drips.send(first);
  const auto begin = std::chrono::steady_clock::now();
  bool answered = false;
  while (!answered && std::chrono::steady_clock::now() - begin < std::chrono::seconds(60)) {
    drips.send(" ");
    answered = drips.receive(20);
  }
  return answered ? drips.read_response().status : 0;
}

// A byte now and then kept a body, and the memory for it, for ever.
TEST(ServerRefusal, ABodyThatDripsInEnds) {
  ServerConfig config;
  config.body_timeout = milliseconds(300);
  EXPECT_EQ(status_of_dripping_body(config, ""), 408);
}

// A fast beginning does not pay for hours of dripping.
TEST(ServerRefusal, ABodyThatDripsInAfterAFastBeginningEnds) {
  ServerConfig config;
  config.body_timeout = milliseconds(300);
  EXPECT_EQ(status_of_dripping_body(config, std::string(500'000, ' ')), 408);
}

TEST(ServerRefusal, ABodyThatComesAtTheLeastRateEndsAtItsTotalTime) {
  ServerConfig config;
  config.min_body_rate = 1;
  config.body_total_timeout = milliseconds(300);
  EXPECT_EQ(status_of_dripping_body(config, ""), 408);
}

// curl -d sends a form's type, LiteLLM none at all; a page of another site can do so only by way of a
// browser.
TEST(ServerRefusal, ABodyOfAnotherTypeIsTakenFromPrograms) {
  RunningServer running;
  const auto post = [&](std::string_view headers) {
    TestClient client(running.port());
    client.send(concat("POST /tokenize HTTP/1.1\r\nHost: localhost\r\n", headers,
                       "Content-Length: 14\r\n\r\n{\"prompt\":\"a\"}"));
    return client.read_response().status;
  };
  EXPECT_EQ(post(""), 200);
  EXPECT_EQ(post("Content-Type: application/x-www-form-urlencoded\r\n"), 200);
  for (const char* header : {"Origin: https://evil.example\r\n", "Sec-Fetch-Site: cross-site\r\n",
                             "Referer: https://evil.example/\r\n"}) {
    EXPECT_EQ(post(header), 415);
    EXPECT_EQ(post(concat("Content-Type: text/plain\r\n", header)), 415);
  }
}

TEST(ServerRefusal, HttpDetails) {
  RunningServer running;
  TestClient client(running.port());
  EXPECT_EQ(client.post("/tokenize", R"({"prompt":"a"})", "Content-Encoding: gzip\r\n").status, 415);
  TestClient other(running.port());
  EXPECT_EQ(other.post("/tokenize", R"({"prompt":"a"})", "Content-Encoding: identity\r\n").status, 200);
  // RFC 9110 10.1.1: no 100 to a client of HTTP/1.0.
  TestClient old(running.port());
  old.send(
      concat("POST /tokenize HTTP/1.0\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n"
             "Content-Length: 14\r\n\r\n",
             R"({"prompt":"a"})"));
  EXPECT_EQ(old.read_response().status, 200);
}

}  // namespace
}  // namespace pagoda
