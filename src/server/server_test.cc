// The server over loopback, with a FakeEngine behind it: what it answers, route by route.
#include <gtest/gtest.h>

#include "server/running_server.h"

namespace pagoda {
namespace {

TEST(Server, AnswersACompletion) {
  RunningServer running;
  TestClient client(running.port());
  const TestResponse response = client.post("/v1/completions", kPrompt, "X-Request-Id: my-id\r\n");
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(text_of(response), "bcab");
  EXPECT_EQ(response.headers.at("x-request-id"), "my-id");
  EXPECT_NE(response.body.find("\"cmpl-my-id\""), std::string::npos);
  EXPECT_EQ(response.headers.at("content-type"), "application/json");
}

TEST(Server, KeepsTheConnectionAndTakesPipelinedRequests) {
  RunningServer running;
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
  RunningServer running;
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
  RunningServer running;
  TestClient client(running.port());
  client.send(concat("POST /v1/completions HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: ",
                     kStream.size(), "\r\n\r\n", kStream));
  const TestResponse response = client.read_response();
  EXPECT_EQ(response.status, 200);
  EXPECT_FALSE(response.headers.contains("transfer-encoding"));
  EXPECT_TRUE(response.body.ends_with("data: [DONE]\n\n"));
}

TEST(Server, TakesChunkedBodiesAndExpectContinue) {
  RunningServer running;
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

TEST(Server, EveryRouteAnswersEveryMethodAsTheTableSays) {
  RunningServer running;
  const std::string get_only[] = {"/",     "/health",    "/version",        "/metrics",
                                  "/load", "/v1/models", "/v1/models/tiny", "/v1/models/ali%61s"};
  const std::string post_only[] = {"/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize"};
  std::vector<Exchange> table = {{"GET /ping", 200},
                                 {"POST /ping", 200},
                                 {"PUT /ping", 405},
                                 {"GET /v1/models/none", 404},
                                 {"GET /v1/models/%zz", 400},
                                 {"GET /admin/prefixes", 200},
                                 {"POST /admin/prefixes", 400},
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
    for (const char* method : {"PUT ", "DELETE ", "PATCH ", "BREW "}) table.push_back({method + path, 405});
    if (path != "/") table.push_back({"POST " + path, 405});  // TGI's
    table.push_back({"OPTIONS " + path, 204});
  }
  for (const std::string& path : post_only) {
    for (const char* method : {"GET ", "HEAD ", "PUT ", "DELETE ", "PATCH "})
      table.push_back({method + path, 405});
    table.push_back({"POST " + path, 400});  // no body
    table.push_back({"OPTIONS " + path, 204});
    for (const char* suffix : {"/x", "%20", ";a", "."}) table.push_back({"POST " + path + suffix, 404});
    for (const char* suffix : {"/", "//"}) table.push_back({"POST " + path + suffix, 400});
  }
  for (const char* path : {"//", "/v1", "/v1/", "/v2/models", "/metrics/", "//health", "/health/..", "/admin",
                           "/v1/images", "/favicon.ico"})
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
  RunningServer running;
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

TEST(Server, TokenizesAndBack) {
  RunningServer running;
  TestClient client(running.port());
  EXPECT_EQ(
      client.post("/tokenize", R"({"prompt":"hi<x>","return_token_strs":true})").body,
      R"({"count":4,"max_model_len":4096,"tokens":[256,104,105,258],"token_strs":["<s>","h","i","<x>"]})");
  EXPECT_EQ(client.post("/detokenize", R"({"tokens":[104,105,258]})").body,
            R"({"prompt":"hi<x>","content":"hi<x>"})");
  const TestResponse chat = client.post("/tokenize", R"({"messages":[{"role":"user","content":"<x>"}]})");
  EXPECT_EQ(chat.status, 200) << chat.body;
}

TEST(Server, CorsIsOpenOnlyToListedOrigins) {
  ServerConfig config;
  config.allowed_origins = {"http://page.example"};
  RunningServer running(config);
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
  EXPECT_EQ(
      client.get("/health", "Origin: http://page.example\r\n").headers.at("access-control-expose-headers"),
      "x-request-id, warning");
  EXPECT_FALSE(client.get("/health").headers.contains("access-control-expose-headers"));
}

// OpenAI's JavaScript client sends headers of its own, which a browser asks about first.
TEST(Server, APreflightAllowsTheHeadersItAsksFor) {
  ServerConfig config;
  config.allowed_origins = {"*"};
  RunningServer running(config);
  RunningServer closed;
  const std::string fixed = "authorization, content-type, x-request-id";
  const auto allowed = [](RunningServer& server, std::string_view asked) {
    TestClient client(server.port());
    client.send(
        concat("OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nOrigin: "
               "http://page.example\r\nAccess-Control-Request-Method: POST\r\n",
               asked, "\r\n"));
    return client.read_response().headers.at("access-control-allow-headers");
  };
  const std::string asked = "authorization,content-type,x-stainless-lang, x-stainless-retry-count";
  const auto header = [](std::string_view value) {
    return concat("Access-Control-Request-Headers: ", value, "\r\n");
  };
  EXPECT_EQ(allowed(running, header(asked)), asked);
  EXPECT_EQ(allowed(running, ""), fixed);
  EXPECT_EQ(allowed(running, header("x-a; x-b")), fixed);
  EXPECT_EQ(allowed(running, header("x-a\tx-b")), fixed);
  EXPECT_EQ(allowed(running, header(std::string(2000, 'x'))), fixed);
  EXPECT_EQ(allowed(closed, header(asked)), fixed) << "the origin is not allowed";
}

TEST(Server, MetricsCountRequestsByRoute) {
  RunningServer running;
  TestClient client(running.port());
  client.get("/nowhere/secret");
  client.post("/v1/completions", kPrompt);
  const std::string text = client.get("/metrics").body;
  EXPECT_NE(text.find("http_requests_total{"), std::string::npos) << text;
  EXPECT_NE(text.find("handler=\"/v1/completions\""), std::string::npos);
  EXPECT_EQ(text.find("secret"), std::string::npos);
  EXPECT_NE(text.find("model_name=\"tiny\""), std::string::npos);
}

}  // namespace
}  // namespace pagoda
