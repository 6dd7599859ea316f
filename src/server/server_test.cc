// The server over loopback, with a FakeEngine behind it: what clients see, good, bad and gone.
#include "server/server.h"

#include <gtest/gtest.h>

#include <csignal>
#include <functional>
#include <optional>

#include "api/json.h"
#include "api/test_support.h"
#include "base/log.h"
#include "server/fake_engine.h"
#include "server/test_client.h"

namespace pagoda {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Waits, with a deadline, for what another thread brings about.
bool eventually(const std::function<bool()>& condition, milliseconds limit = milliseconds(10'000)) {
  const auto deadline = steady_clock::now() + limit;
  while (steady_clock::now() < deadline) {
    if (condition()) return true;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return condition();
}

class Running {
 public:
  explicit Running(ServerConfig config = {}) : model_(4096) {
    set_log_level(LogLevel::off);
    config.port = 0;
    config.handle_signals = false;
    auto created = Server::create(std::move(config), engine, model_.context, metrics);
    EXPECT_TRUE(created.has_value()) << created.error().message();
    server = std::move(*created);
    thread_ = std::thread([this] { ended = server->run(); });
  }
  ~Running() {
    server->stop();
    thread_.join();
    server.reset();
  }
  std::uint16_t port() const { return server->port(); }
  void join() {
    thread_.join();
    thread_ = std::thread([] {});
  }

  FakeEngine engine;
  MetricsRegistry metrics;
  std::unique_ptr<Server> server;
  Status ended;  // after join()

 private:
  TestModel model_;
  std::thread thread_;
};

constexpr std::string_view kPrompt = R"({"prompt":"abc","add_special_tokens":false,"max_tokens":4})";
constexpr std::string_view kStream =
    R"({"prompt":"abc","add_special_tokens":false,"max_tokens":4,"stream":true})";
constexpr std::string_view kLongStream =
    R"({"prompt":"abc","add_special_tokens":false,"max_tokens":4000,"stream":true})";
constexpr std::string_view kLong = R"({"prompt":"abc","add_special_tokens":false,"max_tokens":4000})";

std::string text_of(const TestResponse& response) {
  const auto value = parse_json(response.body);
  EXPECT_TRUE(value.has_value()) << response.body;
  return std::string(value->at("choices").at(0).at("text").as_string().c_str());
}

TEST(Server, AnswersACompletion) {
  Running running;
  TestClient client(running.port());
  const TestResponse response = client.post("/v1/completions", kPrompt, "X-Request-Id: my-id\r\n");
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(text_of(response), "bcab");
  EXPECT_EQ(response.headers.at("x-request-id"), "my-id");
  EXPECT_NE(response.body.find("\"cmpl-my-id\""), std::string::npos);
  EXPECT_EQ(response.headers.at("content-type"), "application/json");
}

TEST(Server, KeepsTheConnectionAndTakesPipelinedRequests) {
  Running running;
  TestClient client(running.port());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(client.post("/v1/completions", kPrompt).status, 200);
  client.send(
      "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /version HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(client.read_response().body, "{\"status\":\"ok\"}");
  EXPECT_EQ(client.read_response().body, "{\"version\":\"1.2.3\"}");
  // A request that is sent while a generation runs waits its turn.
  const std::string post = concat(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
      "application/json\r\nContent-Length: ",
      kPrompt.size(), "\r\n\r\n", kPrompt);
  client.send(post + post + "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(text_of(client.read_response()), "bcab");
  EXPECT_EQ(text_of(client.read_response()), "bcab");
  EXPECT_EQ(client.read_response().status, 200);
}

TEST(Server, StreamsEvents) {
  Running running;
  TestClient client(running.port());
  const TestResponse response = client.post("/v1/completions", kStream);
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.headers.at("content-type"), "text/event-stream; charset=utf-8");
  EXPECT_TRUE(response.body.ends_with("data: [DONE]\n\n")) << response.body;
  std::string text;
  for (std::size_t at = 0; (at = response.body.find("data: {", at)) != std::string::npos; at += 6) {
    const auto event =
        parse_json(std::string_view(response.body).substr(at + 6, response.body.find('\n', at) - at - 6));
    ASSERT_TRUE(event.has_value());
    text += event->at("choices").at(0).at("text").as_string().c_str();
  }
  EXPECT_EQ(text, "bcab");
  EXPECT_EQ(client.get("/health").status, 200) << "the connection goes on after a stream";
}

TEST(Server, ServesHttp10) {
  Running running;
  TestClient client(running.port());
  client.send(concat("POST /v1/completions HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: ",
                     kStream.size(), "\r\n\r\n", kStream));
  const TestResponse response = client.read_response();
  EXPECT_EQ(response.status, 200);
  EXPECT_FALSE(response.headers.contains("transfer-encoding"));
  EXPECT_TRUE(response.body.ends_with("data: [DONE]\n\n"));
}

TEST(Server, TakesChunkedBodiesAndExpectContinue) {
  Running running;
  TestClient client(running.port());
  client.send(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
      "application/json\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (std::size_t i = 0; i < kPrompt.size(); i += 7) {
    const std::string_view part = kPrompt.substr(i, 7);
    char size[8];
    std::snprintf(size, sizeof size, "%zx", part.size());
    client.send(concat(size, "\r\n", part, "\r\n"));
  }
  client.send("0\r\n\r\n");
  EXPECT_EQ(text_of(client.read_response()), "bcab");

  client.send(
      concat("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nExpect: "
             "100-continue\r\nContent-Length: ",
             kPrompt.size(), "\r\n\r\n"));
  EXPECT_EQ(client.read_response(/*head_only=*/true).status, 100);
  client.send(kPrompt);
  EXPECT_EQ(text_of(client.read_response()), "bcab");
}

struct Exchange {
  std::string request;
  int status;
};

TEST(Server, EveryRouteAnswersEveryMethodAsTheTableSays) {
  Running running;
  const std::string get_only[] = {"/health",    "/version",        "/metrics",          "/load",
                                  "/v1/models", "/v1/models/tiny", "/v1/models/ali%61s"};
  const std::string post_only[] = {"/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize"};
  std::vector<Exchange> table = {{"GET /ping", 200},
                                 {"POST /ping", 200},
                                 {"PUT /ping", 405},
                                 {"GET /v1/models/none", 404},
                                 {"GET /v1/models/%zz", 400},
                                 {"GET /admin/prefixes", 200},
                                 {"POST /admin/prefixes", 415},
                                 {"DELETE /admin/prefixes", 405},
                                 {"OPTIONS /admin/prefixes", 204},
                                 {"DELETE /admin/prefixes/none", 404},
                                 {"DELETE /admin/prefixes/%zz", 400},
                                 {"GET /admin/prefixes/none", 405},
                                 {"POST /admin/prefixes/none", 405}};
  for (const std::string& path : get_only) {
    table.push_back({"GET " + path, 200});
    table.push_back({"HEAD " + path, 200});
    table.push_back({"GET " + path + "?x=1", 200});
    for (const char* method : {"POST ", "PUT ", "DELETE ", "PATCH ", "BREW "})
      table.push_back({method + path, 405});
    table.push_back({"OPTIONS " + path, 204});
  }
  for (const std::string& path : post_only) {
    for (const char* method : {"GET ", "HEAD ", "PUT ", "DELETE ", "PATCH "})
      table.push_back({method + path, 405});
    table.push_back({"POST " + path, 415});  // no media type
    table.push_back({"OPTIONS " + path, 204});
    for (const char* suffix : {"/", "//", "/x", "%20", ";a", "."})
      table.push_back({"POST " + path + suffix, 404});
  }
  for (const char* path : {"/", "/v1", "/v1/", "/v2/models", "/metrics/", "//health", "/health/..", "/admin",
                           "/v1/embeddings", "/favicon.ico"})
    table.push_back({std::string("GET ") + path, 404});
  EXPECT_GE(table.size(), 100u);
  TestClient client(running.port());
  for (const Exchange& row : table) {
    client.send(row.request + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
    const TestResponse response = client.read_response(row.request.starts_with("HEAD"));
    EXPECT_EQ(response.status, row.status) << row.request;
    if (row.status == 405) EXPECT_TRUE(response.headers.contains("allow")) << row.request;
    if (row.status >= 400 && !row.request.starts_with("HEAD")) {
      const auto body = parse_json(response.body);
      ASSERT_TRUE(body.has_value()) << row.request << response.body;
      for (const char* field : {"message", "type", "param", "code"})
        EXPECT_TRUE(body->at("error").as_object().contains(field)) << row.request;
    }
  }
}

TEST(Server, PrefixesAreAddedListedAndDropped) {
  Running running;
  running.engine.pause_ms = 20;  // the answer comes when the engine has computed it
  TestClient client(running.port());
  const auto add = [&](std::string_view body) { return client.post("/admin/prefixes", body); };
  const auto param = [](const TestResponse& response) {
    return parse_json(response.body)->at("error").at("param");
  };
  TestResponse added = add(R"({"name":"a b/c","text":"hello"})");
  EXPECT_EQ(added.status, 200) << added.body;
  EXPECT_EQ(parse_json(added.body)->at("name").as_string(), "a b/c");
  EXPECT_EQ(parse_json(added.body)->at("num_tokens").as_int64(), 6) << "with the beginning of sequence";
  EXPECT_EQ(parse_json(added.body)->at("num_blocks").as_int64(), 1);
  const TestResponse twice = add(R"({"name":"a b/c","token_ids":[1]})");
  EXPECT_EQ(twice.status, 409) << twice.body;
  EXPECT_EQ(param(twice).as_string(), "name");
  const TestResponse no_room = add(R"({"name":"b","token_ids":[0]})");
  EXPECT_EQ(no_room.status, 400);
  EXPECT_EQ(param(no_room).as_string(), "token_ids") << "the engine says prompt; the client did not";
  EXPECT_EQ(param(add(R"({"text":"hello"})")).as_string(), "name");
  EXPECT_EQ(add("{").status, 400);

  const TestResponse list = client.get("/admin/prefixes");
  EXPECT_EQ(parse_json(list.body)->at("data").as_array().size(), 1u);
  client.send("DELETE /admin/prefixes/a%20b%2Fc HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(client.read_response().status, 200);
  client.send("DELETE /admin/prefixes/a%20b%2Fc HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const TestResponse gone = client.read_response();
  EXPECT_EQ(gone.status, 404);
  EXPECT_EQ(param(gone).as_string(), "name");
  EXPECT_TRUE(running.engine.list_prefixes().empty());

  running.engine.draining = true;
  EXPECT_EQ(add(R"({"name":"late","text":"hello"})").status, 503);
}

TEST(Server, PrefixesNeedTheKey) {
  ServerConfig config;
  config.api_keys = {"secret"};
  Running running(config);
  TestClient client(running.port());
  EXPECT_EQ(client.get("/admin/prefixes").status, 401);
  client.send("DELETE /admin/prefixes/a HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(client.read_response().status, 401);
  EXPECT_EQ(client.get("/admin/prefixes", "Authorization: Bearer secret\r\n").status, 200);
  TestClient other(running.port());
  EXPECT_EQ(other.post("/admin/prefixes", R"({"name":"a","text":"x"})").status, 401);
  EXPECT_TRUE(running.engine.list_prefixes().empty());
}

TEST(Server, BadBodiesGetTheirStatusAndKeepTheConnection) {
  Running running;
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

TEST(Server, TokenizesAndBack) {
  Running running;
  TestClient client(running.port());
  EXPECT_EQ(
      client.post("/tokenize", R"({"prompt":"hi<x>","return_token_strs":true})").body,
      R"({"count":4,"max_model_len":4096,"tokens":[256,104,105,258],"token_strs":["<s>","h","i","<x>"]})");
  EXPECT_EQ(client.post("/detokenize", R"({"tokens":[104,105,258]})").body, R"({"prompt":"hi<x>"})");
  const TestResponse chat = client.post("/tokenize", R"({"messages":[{"role":"user","content":"<x>"}]})");
  EXPECT_EQ(chat.status, 200) << chat.body;
}

// Each breaks the framing, so the connection ends with the answer: nothing after it may be read as a request.
TEST(Server, SmugglingFormsAreRefusedAndTheConnectionEnds) {
  Running running;
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

TEST(Server, AChunkedBodyOverTheLimitOrMadeOfCrumbsIsRefused) {
  ServerConfig config;
  config.max_body_bytes = 200'000;
  Running running(config);
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

TEST(Server, AllBodiesTogetherAreBounded) {
  ServerConfig config;
  config.max_bodies_bytes = 100'000;
  Running running(config);
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

TEST(Server, SlowClientsAreTold) {
  ServerConfig config;
  config.head_timeout = config.body_timeout = config.keep_alive_timeout = milliseconds(50);
  Running running(config);
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

TEST(Server, KeysGuardAllButHealth) {
  ServerConfig config;
  config.api_keys = {"secret"};
  Running running(config);
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

TEST(Server, AForeignHostNameIsRefusedOnLoopback) {
  Running running;
  TestClient client(running.port());
  client.send("GET /health HTTP/1.1\r\nHost: rebound.example\r\n\r\n");
  EXPECT_EQ(client.read_response().status, 403);
}

TEST(Server, CorsIsOpenOnlyToListedOrigins) {
  ServerConfig config;
  config.allowed_origins = {"http://page.example"};
  Running running(config);
  TestClient client(running.port());
  EXPECT_EQ(
      client.get("/health", "Origin: http://page.example\r\n").headers.at("access-control-allow-origin"),
      "http://page.example");
  EXPECT_FALSE(client.get("/health", "Origin: http://other.example\r\n")
                   .headers.contains("access-control-allow-origin"));
  client.send(
      "OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nOrigin: "
      "http://page.example\r\nAccess-Control-Request-Method: POST\r\n\r\n");
  const TestResponse preflight = client.read_response();
  EXPECT_EQ(preflight.status, 204);
  EXPECT_NE(preflight.headers.at("access-control-allow-methods").find("POST"), std::string::npos);
}

TEST(Server, AFullQueueIs429WithRetryAfter) {
  Running running;
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

TEST(Server, ADeadEngineTurnsHealthRedAndEndsCalls) {
  Running running;
  running.engine.is_healthy = false;
  TestClient client(running.port());
  EXPECT_EQ(client.get("/health").status, 503);
  EXPECT_EQ(client.post("/v1/completions", kPrompt).status, 503);
}

TEST(Server, ADeadEngineEndsTheServer) {
  ServerConfig config;
  config.dead_engine_grace = milliseconds(1);
  Running running(config);
  EXPECT_TRUE(running.ended.ok());
  running.engine.is_healthy = false;
  running.join();
  EXPECT_EQ(running.ended.code(), StatusCode::unavailable);
}

TEST(Server, AClientThatHangsUpWhileStreamingFreesItsRequest) {
  Running running;
  running.engine.pause_ms = 1;
  for (int i = 0; i < 10; ++i) {
    TestClient client(running.port());
    client.send(
        concat("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
               "application/json\r\nContent-Length: ",
               kLongStream.size(), "\r\n\r\n", kLongStream));
    ASSERT_TRUE(client.wait_for("data: "));
    client.close();
    EXPECT_TRUE(eventually([&] { return running.engine.num_running() == 0; }, milliseconds(2000)));
  }
  EXPECT_EQ(running.engine.num_aborted, 10);
}

TEST(Server, AClientThatHangsUpWhileWaitingFreesItsRequest) {
  Running running;
  running.engine.pause_ms = 1;
  TestClient client(running.port());
  client.send(
      concat("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
             "application/json\r\nContent-Length: ",
             kLong.size(), "\r\n\r\n", kLong));
  ASSERT_TRUE(eventually([&] { return running.engine.num_running() == 1; }));
  client.close();
  EXPECT_TRUE(eventually([&] { return running.engine.num_running() == 0; }, milliseconds(2000)));
}

TEST(Server, AReaderThatTakesNothingIsCutOffAndHoldsNothingUp) {
  ServerConfig config;
  config.write_timeout = milliseconds(200);
  Running running(config);
  TestClient slow(running.port());
  const std::string big =
      R"({"prompt":"abc","add_special_tokens":false,"max_tokens":4000,"n":100,"stream":true,"logprobs":0})";
  slow.send(
      concat("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
             "application/json\r\nContent-Length: ",
             big.size(), "\r\n\r\n", big));
  ASSERT_TRUE(eventually([&] { return running.engine.num_running() == 1; }));
  TestClient other(running.port());
  EXPECT_EQ(text_of(other.post("/v1/completions", kPrompt)), "bcab");
  EXPECT_TRUE(eventually([&] { return running.metrics.gauge("http_connections", "").value() == 1; },
                         milliseconds(20'000)))
      << "the stalled connection is still open";
}

TEST(Server, StopStringsEndTheEnginesWork) {
  Running running;
  running.engine.pause_ms = 1;
  TestClient client(running.port());
  const TestResponse response = client.post(
      "/v1/completions", R"({"prompt":"abcd","add_special_tokens":false,"max_tokens":4000,"stop":"da"})");
  EXPECT_EQ(text_of(response), "bc");
  EXPECT_TRUE(eventually([&] { return running.engine.num_running() == 0; }, milliseconds(1000)));
}

TEST(Server, DrainLetsRunningRequestsFinish) {
  Running running;
  running.engine.pause_ms = 1;
  TestClient client(running.port());
  const std::string body = R"({"prompt":"abc","add_special_tokens":false,"max_tokens":300,"stream":true})";
  TestClient kept(running.port());
  EXPECT_EQ(kept.get("/health").status, 200);
  client.send(
      concat("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
             "application/json\r\nContent-Length: ",
             body.size(), "\r\n\r\n", body));
  ASSERT_TRUE(client.wait_for("data: "));
  running.server->stop();
  ASSERT_TRUE(eventually([&] { return !TestClient(running.port()).connected(); }));
  const TestResponse refused = kept.post("/v1/completions", kPrompt);
  EXPECT_EQ(refused.status, 503);
  EXPECT_TRUE(client.read_response().body.ends_with("data: [DONE]\n\n"));
  running.join();
}

TEST(Server, DrainEndsWhatTakesTooLongWithAnErrorEvent) {
  ServerConfig config;
  config.shutdown_timeout = milliseconds(50);
  Running running(config);
  running.engine.pause_ms = 1;
  TestClient stream(running.port()), whole(running.port());
  for (auto& [client, body] : {std::pair{&stream, kLongStream}, std::pair{&whole, kLong}})
    client->send(
        concat("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
               "application/json\r\nContent-Length: ",
               body.size(), "\r\n\r\n", body));
  ASSERT_TRUE(stream.wait_for("data: "));
  ASSERT_TRUE(eventually([&] { return running.engine.num_running() == 2; }));
  running.server->stop();
  const TestResponse streamed = stream.read_response();
  EXPECT_NE(streamed.body.find("\"error\""), std::string::npos);
  EXPECT_TRUE(streamed.body.ends_with("data: [DONE]\n\n"));
  EXPECT_EQ(whole.read_response().status, 503);
  running.join();
  EXPECT_EQ(running.engine.num_aborted, 2);
}

TEST(Server, ManyStreamsOfWhichAThirdHangsUpLoseNothing) {
  ServerConfig config;
  config.io_threads = 2;
  Running running(config);
  running.engine.pause_ms = 1;
  const std::string body = R"({"prompt":"abcdefg","add_special_tokens":false,"max_tokens":60,"stream":true})";
  std::vector<std::thread> threads;
  std::atomic<int> complete{0};
  for (int t = 0; t < 60; ++t) {
    threads.emplace_back([&, t] {
      TestClient client(running.port());
      client.send(
          concat("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                 "application/json\r\nContent-Length: ",
                 body.size(), "\r\n\r\n", body));
      if (t % 3 == 0) {
        client.wait_for("data: ");
        return;
      }
      const TestResponse response = client.read_response();
      if (response.status == 200 && response.body.ends_with("data: [DONE]\n\n")) ++complete;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(complete, 40);
  EXPECT_TRUE(eventually([&] { return running.engine.num_running() == 0; }));
  EXPECT_TRUE(eventually([&] { return running.metrics.gauge("http_connections", "").value() == 0; }));
}

TEST(Server, OneConnectionTooManyIsTold) {
  ServerConfig config;
  config.max_connections = 2;
  Running running(config);
  TestClient first(running.port()), second(running.port());
  EXPECT_EQ(first.get("/health").status, 200);
  EXPECT_EQ(second.get("/health").status, 200);
  TestClient third(running.port());
  EXPECT_EQ(third.read_response().status, 503);
  second.close();
  EXPECT_TRUE(eventually([&] { return TestClient(running.port()).get("/health").status == 200; }));
}

TEST(Server, MetricsCountRequestsByRoute) {
  Running running;
  TestClient client(running.port());
  client.get("/nowhere/secret");
  client.post("/v1/completions", kPrompt);
  const std::string text = client.get("/metrics").body;
  EXPECT_NE(text.find("http_requests_total{"), std::string::npos) << text;
  EXPECT_NE(text.find("handler=\"/v1/completions\""), std::string::npos);
  EXPECT_EQ(text.find("secret"), std::string::npos);
  EXPECT_NE(text.find("model_name=\"tiny\""), std::string::npos);
}

TEST(Server, APortInUseIsToldInOneLine) {
  Running running;
  TestModel model;
  ServerConfig config;
  config.port = running.port();
  MetricsRegistry metrics;
  const auto second = Server::create(config, running.engine, model.context, metrics);
  ASSERT_FALSE(second.has_value());
  EXPECT_NE(second.error().message().find("in use"), std::string::npos);
  // The same, said without an engine; and not of a port that is free.
  const Status early = Server::check_address(config.host, config.port);
  EXPECT_EQ(early.message(), second.error().message());
  EXPECT_TRUE(Server::check_address(config.host, 0).ok());
}

}  // namespace
}  // namespace pagoda
